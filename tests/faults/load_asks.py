"""Asks for more and their answers: some of another's ask, some twice, some of nobody's."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any, Final

from tests.faults.people import ANALYSTS, OWNER

Body = dict[str, Any]
_PEOPLE: Final = (*ANALYSTS[:2], "stranger-1", "stranger-1")
_BROKEN: Final[tuple[Body, ...]] = (
    {"wants": "more"},
    {"reason": ""},
    {"reason": "x" * 201},
    {"wants": "budget"},
    {"part": "0.2"},
    {"role": "reader"},
    {"role": None},
    {"wants": "limit", "role": None},
    {"team": "blue"},
    {"budget": {"epsilon": "1"}},
)


class AskLoad:
    """Draws asks and answers, from a seed of its own.

    Args:
        share: which part of the records they are.
    """

    def __init__(self, seed: int, share: float) -> None:
        self._chance = random.Random(seed)
        self._share = share
        self._asks: list[tuple[str, int, Body]] = []

    def is_next(self) -> bool:
        """Tell whether the next input is one of these."""
        return self._chance.random() < self._share

    def hear(self, record: bytes) -> None:
        """Take in a decision: an answer names the ask by its number."""
        said = json.loads(record) if b'"more_asked"' in record else {}
        if said.get("outcome") == "more_asked":
            self._asks.append((said["dataset"], said["sequence"], said["request"]))

    def step(self, names: Sequence[str]) -> Body:
        """Return the next record, without its version and id."""
        chance = self._chance
        if self._asks and chance.random() < 0.3:
            return self._answer()
        name = chance.choice([names[2], names[2], *names[:4], chance.choice(names), "never-opened"])
        body = {
            "type": "more",
            "dataset": name,
            "by": "stranger-1" if name == names[2] else chance.choice(_PEOPLE),
            "reason": 'for the "annual" report ☃',
            **self._wanted(),
        }
        if chance.random() < 0.05:
            body |= chance.choice(_BROKEN)
        return body

    def _wanted(self) -> Body:
        chance = self._chance
        wants = chance.choice(["access", "access", "limit", "budget"])
        if wants == "access":
            return {"wants": wants, "role": chance.choice(["analyst", "auditor", "engine"])}
        if wants == "limit" and chance.random() < 0.7:
            team = {"team": chance.choice(["blue", "red"])} if chance.random() < 0.4 else {}
            return {"wants": wants, "part": chance.choice(["0.2", "0.5"]), **team}
        return {"wants": wants, "budget": {chance.choice(["epsilon", "epsilon", "rho"]): "0.04"}}

    def _answer(self) -> Body:
        """Return an answer to an ask: mostly a right one to a recent one."""
        chance = self._chance
        dataset, number, ask = chance.choice(self._asks[-12:])
        asker = ask["by"] if chance.random() < 0.85 else ANALYSTS[3]
        body: Body = {"dataset": dataset, "by": OWNER if chance.random() < 0.9 else asker}
        if chance.random() < 0.1:
            number += chance.choice([-1, 1, 10**6])
        if chance.random() < 0.4:
            return {**body, "type": "decline", "ask": number, "asker": asker, "reason": "not now"}
        wants = ask["wants"] if chance.random() < 0.9 else "access"
        body["answers"] = number
        if chance.random() < 0.3:
            body["reason"] = "as you asked"
        if wants == "access":
            roles = [ask.get("role", "analyst")]
            return {**body, "type": "member", "member": asker, "roles": roles}
        if wants == "limit":
            part = {"part": ask.get("part", "0.3")}
            team = ask.get("team") if chance.random() < 0.9 else None
            place = ("team", team) if team else ("analyst", asker)
            return {**body, "type": "limit", "scope": place[0], "name": place[1], **part}
        return {**body, "type": "budget", "budget": ask.get("budget", {"epsilon": "0.1"})}
