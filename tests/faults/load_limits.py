"""The limits of a load: lifetime limits, period limits and reserved shares of a dataset."""

from __future__ import annotations

import random
from typing import Any, Final

from tests.faults.people import ANALYSTS, ENGINES, OWNER, time_text

Body = dict[str, Any]

TEAMS: Final = ("blue", "red", "a:b@c")
_RATIOS: Final = ("0.02", "0.1", "0.1", "0.3333", "0.5", "1", "1e-40")
_SHARES: Final = ("0.05", "0.1", "0.3333", "0.5", "1")
_PERIODS: Final = ("P1D", "P7D", "P36500D")
_ENDS: Final = (-1, 500, 600_000, 3_600_000, 86_400_000)
_BUDGETS: Final[list[Body]] = [
    {"filter": "basic", "epsilon": "0.3", "delta": "1e-7"},
    {"filter": "zcdp", "rho": "0.01", "delta": "1e-8"},
    {"epsilon": "0.4", "delta": "2e-6", "delta_for_claims": "1e-6"},
    {"filter": "fully_adaptive", "epsilon": "0.5", "delta": "1e-6"},
    {"filter": "advanced_2016", "epsilon": "1", "delta": "1e-6"},
    {"filter": "ex_post", "epsilon": "0.3"},
    {"filter": "split", "epsilon": "0.5", "delta": "1e-6", "epsilon_ex_post": "0.2"},
    {"filter": "unified_brownian", "rho": "0.02"},
    {"filter": "gdp_residue", "epsilon": "0.5", "delta": "1e-6"},
    {"filter": "renyi", "epsilon": "1", "delta": "1e-6", "order": "22"},
    {"filter": "renyi_weighted", "epsilon": "1", "delta": "1e-6", "orders": ["18", "40"]},
    {"filter": "renyi_mixture", "epsilon": "1", "delta": "1e-6", "orders": ["18", "40"]},
    {"filter": "optimal_homogeneous", "epsilon": "1", "delta": "1e-6", "epsilon_each": "0.05"},
]


class LimitLoad:
    """Draws limits' records, from a seed of its own."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._ends = random.Random(seed + 1)

    def is_next(self) -> bool:
        """Return whether a limit's record comes now."""
        return self._chance.random() < 0.08

    def dataset(self, names: list[str]) -> str:
        """Return one of some datasets, one of the first, or of those that were opened last."""
        late = [name for name in names[-3:] if name.startswith("late")]
        return self._chance.choice([*names[:6], *late])

    def member(self) -> Body:
        """Return the fields of a record that puts an analyst into a team, or makes an engine."""
        chance = self._chance
        if chance.random() < 0.2:
            return {"member": chance.choice(ENGINES), "roles": ["engine"]}
        team = chance.choice(TEAMS)
        return {"member": chance.choice(ANALYSTS), "roles": ["analyst"], "team": team}

    def limit(self, now: int) -> Body:
        """Return the fields of a limit's record, without those that every admin request has."""
        chance = self._chance
        scope = chance.choice(["dataset", "team", "team", "analyst", "each", "each", "each"])
        body: Body = {"by": chance.choice([OWNER] * 9 + ["stranger-1"]), "scope": scope}
        if scope != "dataset":
            body["name"] = chance.choice(ANALYSTS if scope == "analyst" else TEAMS)
            if chance.random() < 0.6:
                body["part"] = chance.choice(_RATIOS)
            elif chance.random() < 0.7:
                body["policy"] = dict(chance.choice(_BUDGETS))
        if chance.random() < (0.8 if scope == "dataset" else 0.25):
            pace = {"part": chance.choice(_RATIOS), "period": chance.choice(_PERIODS)}
            body["pace"] = dict(reversed(pace.items())) if chance.random() < 0.2 else pace
        if scope in {"team", "analyst"} and chance.random() < 0.4:
            body["reserved"] = chance.choice(_SHARES)
        if chance.random() < 0.1:
            body["follows"] = chance.randrange(1, 60)
        if chance.random() < 0.1:
            body |= dict.fromkeys({"part", "policy", "pace", "reserved"} - body.keys())
        if self._ends.random() < 0.12:
            body["until"] = time_text(now + self._ends.choice(_ENDS))
        return body

    def broken(self) -> Body:
        """Return such fields, one of them invalid."""
        sound: Body = {"by": OWNER, "scope": "team", "name": "blue", "part": "0.5"}
        basic: Body = {"filter": "basic", "epsilon": "1"}
        wrong: list[Body] = [
            {"scope": "everybody"},
            {"scope": "dataset"},
            {"scope": "dataset", "name": None},
            {"scope": "each", "reserved": "0.1"},
            {"name": None},
            {"name": ""},
            {"name": "a b"},
            {"part": "0"},
            {"part": "1.01"},
            {"part": 0.5},
            {"policy": basic},
            {"part": None, "policy": {**basic, "alert_at": ["1"]}},
            {"part": None, "policy": {**basic, "delta": None}},
            {"part": None, "policy": {**basic, "beside": "basic"}},
            {"part": None, "policy": {**basic, "epsilon": "0"}},
            {"part": None, "policy": {**basic, "most_per_request": "0.1"}},
            {"part": None, "policy": "basic"},
            {"pace": {"part": "0.1"}},
            {"pace": {"part": "2", "period": "P1D"}},
            {"pace": {"part": "0.1", "period": "P0D"}},
            {"pace": {"part": "0.1", "period": "P36501D"}},
            {"pace": {"part": "0.1", "period": "P1D", "since": "now"}},
            {"pace": "0.1"},
            {"reserved": "1.5"},
            {"reserved": ["0.1"]},
            {"until": "2026-02-30T00:00:00.000Z"},
            {"part": None, "until": time_text(0)},
            {"as": "administrator"},
            {"member": "ana"},
        ]
        return sound | self._chance.choice(wrong)
