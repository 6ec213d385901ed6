"""Records at random about few datasets and few people, so that memberships matter at once."""

from __future__ import annotations

import random
from typing import Any, Final

from tests.accountant.judged_life import Body, Ids, Sent
from tests.faults.oracle import Partition
from tests.faults.oracle.dataset import Dataset
from tests.faults.oracle.members import ROLES
from tests.faults.oracle.texts import at_text

DATASETS: Final = ("d0", "d1", "d2", "d3", "d4", "d5")
PEOPLE: Final = ("olga", "oda", "ana", "ben", "cy", "engine-1", "engine-2", "auditor-1", "lea")
ROLES_OF: Final = {
    "o": ["owner"],
    "e": ["engine"],
    "a": ["analyst"],
    "b": ["analyst"],
    "l": ["lead"],
}
TEAMS: Final = ("blue", "red", "a:b@c")
_UNTIL: Final = (0, 1, 1, 2, 2, 500, 500, 2_000, 60_000, 4_000_000)
_LATER: Final = (0, 0, 0, 0, 1, 1, 7, 400, 400, 30_000, 700_000)


class Load:
    """Draws inputs by what was committed, so that many of them are permitted."""

    def __init__(self, chance: random.Random, judge: Partition) -> None:
        self._chance = chance
        self._datasets: dict[str, Dataset] = judge.datasets
        self._ids = Ids()
        self._sent: list[Sent] = []
        self._now = judge.at

    def next(self) -> Sent:
        """Return the next input."""
        self._now += self._chance.choice(_LATER)
        draw = self._chance.random()
        if draw < 0.06:
            self._to_an_end()
        if draw < 0.1 and self._sent:
            return self._again()
        body = self._one()
        self._sent = [*self._sent[-40:], self._made(body)]
        return self._sent[-1]

    def _made(self, body: Body) -> Sent:
        issued = self._now + self._chance.choice([0] * 40 + [-4_000_000, 200_000, 400_000])
        return Sent.made({**body, "request_id": self._ids.new(issued)}, self._now)

    def _again(self) -> Sent:
        """Send something again, perhaps with another text."""
        first = self._chance.choice(self._sent)
        if self._chance.random() < 0.7:
            return first._replace(at=self._now)
        field = "purpose" if first.source == "requests" else "reason"
        return Sent.made({**first.body, field: "another"}, self._now)

    def _to_an_end(self) -> None:
        """Move the clock to where a membership ends, or next to it."""
        ends = [
            member.until
            for dataset in self._datasets.values()
            for member in dataset.members.all.values()
            if member.until is not None and member.until > self._now + 1
        ]
        if ends:
            self._now = min(ends) + self._chance.choice([-1, 0, 0, 1])

    def _one(self) -> Body:
        draw = self._chance.random()
        if draw < 0.08 or not self._datasets:
            return self._opening()
        if draw < 0.34:
            return self._member()
        if draw < 0.4:
            return self._of_a_lead()
        if draw < 0.5:
            return self._amendment()
        if draw < 0.504:
            return self._owners("close")
        if draw < 0.52 or (draw < 0.56 and self._paused()):
            return self._brake()
        return self._request()

    def _name(self) -> str:
        known = [*self._datasets]
        odd = self._chance.random() < 0.02 or not known
        return self._chance.choice(DATASETS if odd else known)

    def _somebody(self, *likely: str) -> str:
        """Return one of the likely ones, mostly."""
        pool = likely if likely and self._chance.random() < 0.75 else PEOPLE
        return self._chance.choice(pool)

    def _owners(self, kind: str) -> Body:
        name = self._name()
        dataset = self._datasets.get(name)
        body: Body = {"version": 1, "type": kind, "dataset": name}
        body["by"] = self._somebody(*(_owners_of(dataset) if dataset else ()))
        if dataset and self._chance.random() < 0.1:
            body["follows"] = dataset.sequence - self._chance.choice([0, 0, 1])
        return body

    def _paused(self) -> list[str]:
        return [name for name, each in self._datasets.items() if each.facts["paused"]]

    def _brake(self) -> Body:
        """Return a pause or a resume, mostly the one that is possible."""
        paused = self._paused()
        body = self._owners("resume" if paused else "pause")
        if paused and self._chance.random() < 0.9:
            body["dataset"] = self._chance.choice(paused)
        if self._chance.random() < 0.3:
            body["type"] = self._chance.choice(["pause", "resume"])
        if self._chance.random() < 0.2:
            body |= {"as": "administrator", "by": self._somebody()}
        return body

    def _policy(self) -> Body:
        chance = self._chance
        policy: Body = {"filter": "basic", "odometers": [{"type": "basic"}]}
        policy["epsilon"] = chance.choice(["0.02", "0.5", "1", "50"])
        for name, values in (
            ("halt_on_refusal", (True,)),
            ("most_per_request", ("0.1", "0.5")),
            ("access", ("members", "members", "anyone")),
            ("visibility", ("own", "members")),
            ("population", ("city",)),
        ):
            if chance.random() < (0.6 if name == "access" else 0.25):
                policy[name] = chance.choice(values)
        return policy

    def _opening(self) -> Body:
        body = self._owners("open")
        body.pop("follows", None)
        body["dataset"] = self._chance.choice(DATASETS)
        body["policy"] = self._policy()
        if self._chance.random() < 0.4:
            body["owners"] = self._chance.sample(PEOPLE, self._chance.choice([1, 2, 3]))
        wrong: Any = self._chance.choice([[], ["olga", "olga"], ["a/b"], "olga", [1], None])
        return self._perhaps_broken(body, {"owners": wrong})

    def _member(self) -> Body:
        chance = self._chance
        body = self._owners("member")
        dataset = self._datasets.get(body["dataset"])
        others = [n for n in dataset.members.all if n not in _owners_of(dataset)] if dataset else []
        likely = others if chance.random() < 0.5 else []
        name = body["member"] = self._somebody(*likely)
        usual = ROLES_OF.get(name[0], ["auditor"])
        body["roles"] = (
            list(usual)
            if chance.random() < 0.5
            else chance.sample(ROLES, chance.choice([0, 0, 0, 0, 1, 2, 4]))
        )
        if body["roles"] and chance.random() < (0.9 if "lead" in body["roles"] else 0.4):
            body["team"] = chance.choice(TEAMS)
        if body["roles"] and "owner" not in body["roles"] and chance.random() < 0.5:
            body["until"] = at_text(self._now + chance.choice(_UNTIL))
        if chance.random() < 0.1:
            body["as"] = "administrator"
        if chance.random() < 0.1:
            body["reason"] = "asked for"
        return self._perhaps_broken(body, self._wrong_of_a_member(body["roles"]))

    def _of_a_lead(self) -> Body:
        """Return a lead's record about a member, mostly one that is allowed."""
        chance = self._chance
        found = leads_of(self._datasets)
        if not found:
            return self._member()
        name, lead, team = chance.choice(found)
        known = self._datasets[name].members.all
        led = [each for each, row in known.items() if row.team == team]
        new = [each for each in (*PEOPLE, "newcomer-1", "newcomer-2") if each not in known]
        body: Body = {"version": 1, "type": "member", "dataset": name, "by": lead}
        pool = [*led, *new, *new] if chance.random() < 0.85 else list(PEOPLE)
        body["member"] = chance.choice(pool or PEOPLE)
        body["roles"] = chance.choice([[], ["analyst"], ["analyst"], ["analyst"]])
        if chance.random() < 0.08:
            body["roles"] = chance.choice([["analyst", "lead"], ["owner"], ["engine"]])
        if body["roles"]:
            body["team"] = team if chance.random() < 0.9 else chance.choice(TEAMS)
            if "owner" not in body["roles"] and chance.random() < 0.3:
                body["until"] = at_text(self._now + chance.choice(_UNTIL))
        return body

    def _wrong_of_a_member(self, roles: list[str]) -> Body:
        until = at_text(self._now + 1000)
        if not roles:
            return self._chance.choice([{"team": "blue"}, {"until": until}])
        if "owner" in roles:
            return {"until": until}
        return self._chance.choice(
            [
                {"until": until.replace(".", ",")},
                {"until": until[:-5] + "Z"},
                {"until": self._now},
                {"team": "a b"},
                {"team": ""},
                {"roles": [roles[0], roles[0]]},
                {"roles": ["reader"]},
                {"roles": roles[0]},
                {"member": "a/b"},
                {"as": "owner"},
                {"extra": 1},
            ]
        )

    def _amendment(self) -> Body:
        body = self._owners("amend")
        dataset = self._datasets.get(body["dataset"])
        chance = self._chance
        if dataset and chance.random() < 0.3:
            epsilon = chance.choice(["0.01", "0.4", dataset.policy["epsilon"], "100"])
            known = {n: each for n, each in dataset.policy.items() if each is not None}
            body["policy"] = {**known, "epsilon": epsilon}
            return body
        for name, values in (
            ("access", ("members", "anyone")),
            ("visibility", ("own", "members")),
            ("most_per_request", ("0.1", "1")),
        ):
            if chance.random() < 0.5:
                body[name] = chance.choice(values)
        wrong = chance.choice([{"access": "owners"}, {"visibility": "all"}, {"population": "city"}])
        return self._perhaps_broken(body, wrong)

    def _request(self) -> Body:
        chance = self._chance
        claim: Body = {"type": "pure", "epsilon": chance.choice(["0.001", "0.003", "0.02", "0.3"])}
        if chance.random() < 0.03:
            claim = {"type": "zcdp", "rho": "0.01"}
        body: Body = {
            "version": 1,
            "type": "request",
            "dataset": self._name(),
            "analyst": self._somebody("ana", "ben", "cy"),
            "claim": claim,
            "unit": "person" if chance.random() < 0.97 else "household",
            "neighbours": "add_remove",
        }
        if chance.random() < 0.35:
            body["via"] = self._somebody("engine-1", "engine-2", body["analyst"])
        return self._perhaps_broken(body, {"via": chance.choice(["", "a b", 1, "x" * 101])})

    def _perhaps_broken(self, body: Body, wrong: Body) -> Body:
        return {**body, **wrong} if self._chance.random() < 0.03 else body


def leads_of(datasets: dict[str, Dataset]) -> list[tuple[str, str, str]]:
    """Return dataset, name and team of each lead, of those whose time is over, too."""
    return [
        (name, lead, row.team)
        for name, dataset in datasets.items()
        for lead, row in dataset.members.all.items()
        if "lead" in row.roles and row.team is not None
    ]


def _owners_of(dataset: Dataset) -> list[str]:
    return [name for name, each in dataset.members.all.items() if "owner" in each.roles]
