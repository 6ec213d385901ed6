"""The requests that every benchmark sends: small pure claims of fifty analysts."""

from __future__ import annotations

import os
import random
import time

import msgspec

from accountant.times import uuid7

DEFAULT_POLICY = {"epsilon": "1", "delta": "1e-6"}


def now() -> int:
    """Return the time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def opening(dataset: str, at: int, policy: object = None) -> bytes:
    """Return an admin request that opens a dataset, under the default policy."""
    return msgspec.json.encode(
        {
            "version": 1,
            "type": "open",
            "request_id": uuid7(at, os.urandom(10)),
            "dataset": dataset,
            "by": "owner",
            "policy": DEFAULT_POLICY if policy is None else policy,
        }
    )


def request(dataset: str, at: int, number: int, *, analyst: str | None = None) -> bytes:
    """Return one analyst's request for a small share of a dataset's budget.

    Args:
        analyst: None for one of fifty.
    """
    return msgspec.json.encode(
        {
            "version": 1,
            "type": "request",
            "request_id": uuid7(at, os.urandom(10)),
            "analyst": analyst or f"analyst-{number % 50}",
            "dataset": dataset,
            "claim": {"type": "pure", "epsilon": "0.001"},
            "unit": "person",
            "neighbours": "add_remove",
            "purpose": "weekly retention dashboard",
        }
    )


def names(count: int) -> list[str]:
    """Return the names of `count` datasets."""
    return [f"dataset-{i}" for i in range(count)]


def any_of(datasets: list[str], seed: int, count: int) -> list[str]:
    """Return `count` names, drawn evenly, the same for the same seed."""
    chance = random.Random(seed)
    return chance.choices(datasets, k=count)
