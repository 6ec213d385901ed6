"""Records as clients send them: a request, and what an owner asks for."""

from __future__ import annotations

import os
from typing import Any

from accountant.times import uuid7
from streams.clock import Clock


def new_id(clock: Clock, *, ahead_ms: int = 0) -> str:
    return uuid7(clock.now() + ahead_ms, os.urandom(10))


def request(
    clock: Clock, *, claim: dict[str, Any] | None = None, request_id: str | None = None, **more: Any
) -> dict[str, Any]:
    return {
        "version": 1,
        "type": "request",
        "request_id": request_id or new_id(clock),
        "analyst": "ana",
        "dataset": "census",
        "claim": claim or {"type": "pure", "epsilon": "0.1"},
        "unit": "person",
        "neighbours": "add_remove",
        **more,
    }


def _owners(clock: Clock, kind: str, dataset: str, **fields: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "type": kind,
        "request_id": new_id(clock),
        "dataset": dataset,
        "by": "owner",
        **fields,
    }


def opening(clock: Clock, dataset: str = "census", **policy: Any) -> dict[str, Any]:
    return _owners(clock, "open", dataset, policy={"filter": "basic", "epsilon": "1", **policy})


def amending(clock: Clock, dataset: str = "census", **fields: Any) -> dict[str, Any]:
    return _owners(clock, "amend", dataset, **fields)


def closing(clock: Clock, dataset: str = "census") -> dict[str, Any]:
    return _owners(clock, "close", dataset)


def pausing(
    clock: Clock, dataset: str = "census", kind: str = "pause", **fields: Any
) -> dict[str, Any]:
    return _owners(clock, kind, dataset, **fields)


def answering(
    clock: Clock,
    dataset: str = "census",
    kind: str = "approve",
    *,
    pending: str = "sha256:" + "0" * 64,
    **fields: Any,
) -> dict[str, Any]:
    """Return an owner's answer to a request that waits, by default to none that is known."""
    return _owners(clock, kind, dataset, pending=pending, **fields)
