"""The leads of a load: who becomes one, and what they send, within their bounds and beyond."""

from __future__ import annotations

import random
from typing import Any, Final

from tests.faults.people import ANALYSTS, OWNER, time_text

Body = dict[str, Any]

LEADS: Final = {"lead-1": "blue", "lead-2": "red"}
_PARTS: Final = ("0.02", "0.1", "0.3333", "0.5", "1")
_SHARES: Final = ("0.02", "0.05", "0.1", "0.3333")
_NEW: Final = ("analyst-8", "analyst-9")
_HOUR: Final = 3_600_000


class LeadLoad:
    """Draws records of leads, and of owners about them, some minutes of a team at a time.

    Attributes:
        chance: from a seed of its own.
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self._due: list[Body] = []

    def is_next(self) -> bool:
        """Return whether a record about leads comes now."""
        return self.chance.random() < (0.3 if self._due else 0.004)

    def record(self, names: list[str], now: int) -> Body:
        """Return dataset, type and fields of a record.

        Args:
            names: of the datasets; the third is for members alone.
        """
        if not self._due:
            self._due = self._minutes(self.chance.choice([*names[:6], *[names[2]] * 9]), now)
        return self._due.pop()

    def _minutes(self, dataset: str, now: int) -> list[Body]:
        """Return what happens around a lead, the last record first."""
        chance = self.chance
        lead, team = chance.choice(list(LEADS.items()))
        name = chance.choice(_NEW)
        roles = chance.choice([["lead"], ["lead", "analyst"]])
        limit = {"type": "limit", "by": lead, "scope": "analyst", "name": name}
        shared = {"type": "limit", "by": OWNER, "scope": "team", "name": team}
        member = {"type": "member", "by": lead, "member": name}
        end = {"until": time_text(now + chance.choice([500, _HOUR]))}
        found: list[Body] = [
            {"type": "member", "by": OWNER, "member": lead, "roles": roles, "team": team},
            {**member, "roles": ["analyst"], "team": team},
            {**shared, "part": chance.choice(_PARTS[1:]), "reserved": chance.choice(_SHARES)},
            {**shared, "scope": "each", **chance.choice([{}, {}, _pace(chance, "P2D")])},
            {**limit, "part": chance.choice(_PARTS)},
            {**limit, "reserved": chance.choice(_SHARES), **chance.choice([{}, {}, end])},
            {**limit, **_pace(chance, chance.choice(["P1D", "P2D", "P3D"]))},
            {**limit, "name": chance.choice(ANALYSTS), "part": "0.02"},
            {**member, "member": chance.choice([*ANALYSTS, *LEADS, OWNER]), "roles": []},
            {**member, "roles": ["analyst", "lead"], "team": team},
            {"type": "member", "by": OWNER, "member": lead, "roles": roles, "team": team, **end},
            {**limit},
            {**member, "roles": []},
        ]
        kept = [each for each in found if chance.random() < 0.9]
        return [{"dataset": dataset, **each} for each in reversed(kept)]


def _pace(chance: random.Random, period: str) -> Body:
    return {"pace": {"part": chance.choice(_PARTS), "period": period}}
