"""Records at random about who may use how much of what: 40 datasets, 50 analysts, 10 teams."""

from __future__ import annotations

import random
from typing import Any, Final

from tests.accountant.judged_life import Body, Ids, Sent
from tests.accountant.partition.limit_claims import claim_for
from tests.accountant.partition.member_loads import leads_of
from tests.accountant.strategies import POLICIES
from tests.faults.oracle import Partition
from tests.faults.oracle.dataset import Dataset
from tests.faults.oracle.limits import Limit
from tests.faults.oracle.periods import DAY
from tests.faults.oracle.texts import at_text

DATASETS: Final = tuple(f"d{number}" for number in range(40))
ANALYSTS: Final = tuple(f"a{number}" for number in range(50))
TEAMS: Final = tuple(f"t{number}" for number in range(10))
OWNER: Final = "olga"
_TAKES_BESIDE: Final = {
    *("zcdp_tight", "fully_adaptive", "advanced_2016", "split", "gdp_residue"),
    *("renyi", "renyi_weighted", "renyi_mixture", "optimal_homogeneous"),
}
_LATER: Final = (0, 0, 0, 1, 400, 400, 30_000, 700_000, 3_600_000, DAY // 3, DAY, 5 * DAY)
_RATIOS: Final = ("0.01", "0.05", "0.1", "0.1", "0.2", "0.25", "0.3333", "0.5", "0.75", "1")
_SHARES: Final = ("0.01", "0.02", "0.05", "0.1", "0.1", "0.15", "0.2", "0.3", "0.9")
_PERIODS: Final = ("P1D", "P1D", "P2D", "P7D", "P30D", "P36500D")
_BUDGETS: Final[tuple[Body, ...]] = (
    {"filter": "basic", "epsilon": "0.2"},
    {"filter": "basic", "epsilon": "0.5", "delta": "1e-7"},
    {"filter": "zcdp", "rho": "0.01"},
    {"filter": "zcdp", "rho": "0.004", "delta": "1e-8"},
    {"filter": "zcdp_tight", "epsilon": "0.5", "delta": "1e-6"},
    {"epsilon": "0.4", "delta": "2e-6", "delta_for_claims": "1e-6"},
    {"filter": "fully_adaptive", "epsilon": "0.5", "delta": "1e-6"},
    {"filter": "advanced_2016", "epsilon": "1", "delta": "1e-6"},
    {"filter": "ex_post", "epsilon": "0.3"},
    {"filter": "split", "epsilon": "0.5", "delta": "1e-6", "epsilon_ex_post": "0.2"},
    {"filter": "unified_brownian", "epsilon": "0.5", "delta": "1e-6"},
    {"filter": "gdp_residue", "epsilon": "0.5", "delta": "1e-6"},
    {"filter": "renyi", "epsilon": "1", "delta": "1e-6", "order": "22"},
    {"filter": "renyi_weighted", "epsilon": "1", "delta": "1e-6", "orders": ["18", "40"]},
    {"filter": "renyi_mixture", "epsilon": "1", "delta": "1e-6", "orders": ["18", "40"]},
    {"filter": "optimal_homogeneous", "epsilon": "0.5", "delta": "1e-6", "epsilon_each": "0.05"},
)


class Load:
    """Draws inputs by what was committed, so that many of them are permitted."""

    def __init__(self, chance: random.Random, judge: Partition) -> None:
        self._chance = chance
        self._judge = judge
        self._ids = Ids()
        self._sent: list[Sent] = []
        self._unopened = list(DATASETS)
        self.now = judge.at

    def next(self) -> Sent:
        """Return the next input."""
        self.now += self._chance.choice(_LATER)
        if self._chance.random() < 0.05:
            self._to_a_boundary()
        if self._chance.random() < 0.03 and self._sent:
            return self._chance.choice(self._sent)._replace(at=self.now)
        self._sent = [*self._sent[-20:], self._made(self._one())]
        return self._sent[-1]

    def set_back(self) -> int:
        """Return a time to which the clock is set back."""
        back = self._chance.choice([1, 60_000, DAY // 2, DAY, 3 * DAY, 40 * DAY])
        self.now = self._judge.at - back
        return self.now

    def _made(self, body: Body) -> Sent:
        issued = self.now + self._chance.choice([0] * 40 + [-4_000_000, 400_000])
        if issued <= self._judge.floor:  # after the clock was set back
            issued = self._judge.floor + 1
            self.now = max(self.now, issued - 300_000)
        return Sent.made({**body, "request_id": self._ids.new(issued)}, self.now)

    def _to_a_boundary(self) -> None:
        """Move the clock to where a period ends, or a membership, or next to it."""
        dataset = self._judge.datasets.get(self._name())
        if dataset is None:
            return
        members = dataset.members.all.values()
        ends = [each.until for each in members if each.until is not None]
        ends += [
            limit.periods.around(self.now)[1]
            for limit in dataset.division.in_force()
            if limit.period is not None and limit.period != "P36500D"
        ]
        ends += [limit.until for limit in dataset.division.in_force() if limit.until is not None]
        later = [end for end in ends if end > self.now + 1]
        if later:
            self.now = min(later) + self._chance.choice([-1, 0, 0, 1])

    def _one(self) -> Body:
        draw = self._chance.random()
        if self._unopened and (draw < 0.2 or not self._judge.datasets):
            return self._opening()
        if draw < 0.31:
            return self._limit()
        if draw < 0.34:
            return self._limit_of_a_lead()
        if draw < 0.44:
            return self._member()
        if draw < 0.46:
            return self._amendment()
        if draw < 0.4608:
            return self._owners("close")
        paused = [name for name, each in self._judge.datasets.items() if each.facts["paused"]]
        if draw < 0.4625 or (draw < 0.56 and paused):
            body = self._owners("resume" if paused else "pause")
            if paused and self._chance.random() < 0.9:
                body["dataset"] = self._chance.choice(paused)
            return body
        return self._request()

    def _name(self) -> str:
        """Return a dataset; some are asked much more than others."""
        known = [*self._judge.datasets]
        if not known or self._chance.random() < 0.01:
            return self._chance.choice(DATASETS)
        return known[min(self._chance.randrange(len(known)) for _ in range(3))]

    def _analyst(self, dataset: Dataset | None = None) -> str:
        """Return an analyst; few of them ask most, and of a dataset those who are in a team."""
        if dataset is not None and self._chance.random() < 0.6:
            known = [name for name, each in dataset.members.all.items() if each.team is not None]
            limited = [name for scope, name in dataset.division.limits if scope == "analyst"]
            shared = [name for name in limited if dataset.division.share_of("analyst", name)]
            if shared and self._chance.random() < 0.4:
                return self._chance.choice(shared)
            if known or limited:
                return self._chance.choice([*known, *limited])
        return ANALYSTS[min(int(self._chance.expovariate(0.15)), 49)]

    def _team(self) -> str:
        return TEAMS[min(int(self._chance.expovariate(1.2)), 9)]

    def _owners(self, kind: str, name: str | None = None) -> Body:
        chance = self._chance
        body: Body = {"version": 1, "type": kind, "dataset": name or self._name()}
        body |= {"by": OWNER if chance.random() < 0.98 else "ana"}
        dataset = self._judge.datasets.get(body["dataset"])
        if dataset and kind != "open" and chance.random() < 0.05:
            body["follows"] = dataset.sequence - chance.choice([0, 0, 1])
        return body

    def _opening(self) -> Body:
        chance = self._chance
        name = self._unopened.pop(chance.randrange(len(self._unopened)))
        policy: Body = {**POLICIES[int(name[1:]) % len(POLICIES)]}
        if chance.random() < 0.9:  # what odometers read is no part of this
            policy["odometers"] = []
        if policy.get("filter", "zcdp_tight") in _TAKES_BESIDE and int(name[1:]) >= len(POLICIES):
            policy |= {"beside": "basic"} if chance.random() < 0.6 else {}
        if chance.random() < 0.3:
            policy.pop("halt_on_refusal", None)
        if chance.random() < 0.15:
            policy["most_per_request"] = chance.choice(["0.1", "0.3"])
        if chance.random() < 0.05:
            policy["access"] = "members"
        if chance.random() < 0.3:
            policy["alert_at"] = chance.choice([["0.1", "0.2", "0.5"], ["0.9999", "1"], []])
        return {**self._owners("open", name), "policy": policy}

    def _amendment(self) -> Body:
        fresh = [name for name, each in self._judge.datasets.items() if not each.mechanisms]
        name = self._chance.choice(fresh) if fresh and self._chance.random() < 0.3 else None
        body = self._owners("amend", name)
        dataset = self._judge.datasets.get(body["dataset"])
        if dataset and self._chance.random() < 0.4:
            known = dataset.policy
            field = "rho" if known["epsilon"] is None else "epsilon"
            policy = {name: value for name, value in known.items() if value is not None}
            policy[field] = self._chance.choice([known[field], str(float(known[field]) * 0.9), "5"])
            return {**body, "policy": policy}
        return {**body, "alert_at": self._chance.choice([["0.1"], ["0.3", "0.6"], ["1"]])}

    def _member(self) -> Body:
        chance = self._chance
        body = self._owners("member")
        body["member"] = self._analyst(self._judge.datasets.get(body["dataset"]))
        roles = ["analyst", "analyst", "auditor", "lead"]
        body["roles"] = [] if chance.random() < 0.15 else [chance.choice(roles)]
        if body["roles"] and (body["roles"] == ["lead"] or chance.random() < 0.85):
            body["team"] = self._team()
        if body["roles"] and chance.random() < 0.2:
            body["until"] = at_text(self.now + chance.choice([0, 1, 500, DAY, 9 * DAY]))
        return body

    def _limit(self) -> Body:
        chance = self._chance
        body = self._owners("limit")
        dataset = self._judge.datasets.get(body["dataset"])
        body["scope"] = chance.choice(["dataset", "team", "team", "analyst", "each", "each"])
        if body["scope"] != "dataset":
            body["name"] = self._analyst(dataset) if body["scope"] == "analyst" else self._team()
        known = dataset.division.in_force() if dataset else []
        if known and chance.random() < 0.5:
            limit = chance.choice(known)
            body |= limit.head
            if limit.scope == "dataset":
                body.pop("name", None)
        said = self._said(body["scope"], dataset, known)
        within = self._within(dataset) if dataset and chance.random() < 0.25 else None
        if within is not None:
            body |= {"scope": within[0], "name": within[1]}
            said = {"reserved": chance.choice(_SHARES[:4]), **({"part": "0.5"} if said else {})}
        body |= said
        if chance.random() < 0.04:
            body |= self._wrong(body["scope"])
        elif chance.random() < 0.1:
            body |= dict.fromkeys({"part", "policy", "pace", "reserved"} - body.keys())
        if chance.random() < 0.15:
            body["until"] = at_text(self.now + chance.choice([0, 1, 500, DAY // 2, DAY, 9 * DAY]))
        return body

    def _limit_of_a_lead(self) -> Body:
        """Return a lead's record about a limit of the team's analysts, or a newcomer."""
        chance, found = self._chance, leads_of(self._judge.datasets)
        if not found:
            return self._limit()
        led = {
            (name, lead, team): own
            for name, lead, team in found
            if (own := self._judge.datasets[name].members.led(team))
        }
        name, lead, team = chance.choice([*led] or found)
        dataset = self._judge.datasets[name]
        body: Body = {"version": 1, "dataset": name, "by": lead}
        if chance.random() < 0.15 or not led:
            member = {"type": "member", "member": self._analyst(dataset), "roles": ["analyst"]}
            return {**body, **member, "team": team}
        body |= {"type": "limit", "scope": "analyst", "name": chance.choice(led[name, lead, team])}
        body |= self._said("analyst", dataset, dataset.division.in_force())
        if dataset.division.share_of("team", team) is not None and chance.random() < 0.7:
            body["reserved"] = chance.choice(_SHARES[:4])
        pot = dataset.division.limits.get(("team", team))
        if pot is not None and pot.until is not None and chance.random() < 0.7:
            body["until"] = at_text(pot.until - chance.choice([0, 1, -1]))
        return body

    def _within(self, dataset: Dataset) -> tuple[str, str] | None:
        """Return who may get a share within a team's, or the team that may get one first."""
        members = dataset.members.all.items()
        known = [(name, each.team) for name, each in members if each.team is not None]
        if not known:
            return None
        name, team = self._chance.choice(known)
        has_one = dataset.division.share_of("team", team) is not None
        return ("analyst", name) if has_one else ("team", team)

    def _said(self, scope: str, dataset: Dataset | None, known: list[Limit]) -> Body:
        chance, said = self._chance, Body()
        if known and chance.random() < 0.15:
            return said  # a removal, perhaps of what is not there
        divides = dataset is None or dataset.policy["filter"] != "gdp_residue"
        possible = divides or chance.random() < 0.1
        if scope != "dataset" and chance.random() < 0.75:
            if possible and chance.random() < 0.65:
                said["part"] = chance.choice(_RATIOS)
            else:
                said["policy"] = dict(chance.choice(_BUDGETS))
        if possible and chance.random() < (0.9 if scope == "dataset" else 0.45):
            said["pace"] = {"part": chance.choice(_RATIOS), "period": chance.choice(_PERIODS)}
        if scope in {"team", "analyst"} and chance.random() < 0.5:
            said["reserved"] = chance.choice(_SHARES[: 4 if scope == "analyst" else 9])
        if chance.random() < 0.02 and "part" in said:
            said["part"] = "1e-40"
        return said

    def _wrong(self, scope: str) -> Body:
        wrong: list[Any] = [
            {"scope": "everybody"},
            {"part": "0"},
            {"part": "1.1"},
            {"part": 0.5},
            {"reserved": "2"},
            {"pace": {"part": "0.1"}},
            {"pace": {"part": "0.1", "period": "P0D"}},
            {"pace": {"part": "0.1", "period": "P36501D"}},
            {"pace": {"part": "0.1", "period": "P1D", "from": "now"}},
            {"part": "0.1", "policy": {"filter": "basic", "epsilon": "1"}},
            {"policy": {"filter": "basic", "epsilon": "1", "alert_at": ["1"]}},
            {"policy": {"filter": "basic", "epsilon": "1", "beside": "basic"}},
            {"policy": {"filter": "basic"}},
            {"name": "a/b"},
            {"as": "administrator"},
            {"extra": 1},
        ]
        if scope == "dataset":
            wrong += [{"part": "0.1"}, {"reserved": "0.1"}, {"name": "ana"}]
        else:
            wrong += [{"scope": "dataset"}, {"name": ""}, {"name": None}]
        if scope == "each":
            wrong += [{"reserved": "0.1"}]
        return dict(self._chance.choice(wrong))

    def _request(self) -> Body:
        chance = self._chance
        name = self._name()
        dataset = self._judge.datasets.get(name)
        body: Body = {
            "version": 1,
            "type": "request",
            "dataset": name,
            "analyst": self._analyst(dataset),
            "unit": "person" if chance.random() < 0.99 else "household",
            "neighbours": "add_remove",
        }
        name = dataset.policy["filter"] if dataset else "basic"
        claim = claim_for(name, chance)
        if chance.random() < 0.1:
            claim = {"type": "repeat", "claim": claim, "times": chance.choice([1, 2, 7])}
        elif chance.random() < 0.05 and name != "ex_post":
            claim = {"type": "all_of", "claims": [claim, claim_for(name, chance)]}
        return {**body, "claim": claim}
