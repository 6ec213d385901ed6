"""Records at random about few datasets and few people, so that memberships matter at once."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any, Final, NamedTuple

from accountant.records import Source
from tests.accountant.partition.members_model import ROLES, Body, Model, text_of
from tests.streams.bodies import request_id

DATASETS: Final = ("d0", "d1", "d2", "d3", "d4", "d5")
PEOPLE: Final = ("olga", "oda", "ana", "ben", "cy", "engine-1", "engine-2", "auditor-1")
ROLES_OF: Final = {"o": ["owner"], "e": ["engine"], "a": ["analyst"], "b": ["analyst"]}
TEAMS: Final = ("blue", "red", "a:b@c")
_UNTIL: Final = (-60_000, -1, 0, 1, 2, 500, 2_000, 60_000, 4_000_000)
_LATER: Final = (0, 0, 0, 0, 1, 1, 7, 400, 400, 30_000, 700_000)


class Sent(NamedTuple):
    """One input: its body as the model reads it, its bytes, and when it comes.

    Attributes:
        issued: the time in its id.
        at: when it is taken in.
    """

    source: Source
    body: Body
    value: bytes
    issued: int
    at: int


class Load:
    """Draws inputs, looking at what the model has come to, so that few of them are beside it."""

    def __init__(self, chance: random.Random, model: Model) -> None:
        self._chance = chance
        self._model = model
        self._numbers = itertools.count(1)
        self._sent: list[Sent] = []
        self._now = model.at

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
        body["request_id"] = request_id(issued, next(self._numbers))
        wire = {name: value for name, value in body.items() if name != "broken"}
        source: Source = "requests" if body["type"] == "request" else "admin"
        return Sent(source, body, json.dumps(wire).encode(), issued, self._now)

    def _again(self) -> Sent:
        """Send something again, perhaps with another text."""
        first = self._chance.choice(self._sent)
        if self._chance.random() < 0.7:
            return first._replace(at=self._now)
        field = "purpose" if first.source == "requests" else "reason"
        body = {**first.body, field: "another"}
        wire = {name: value for name, value in body.items() if name != "broken"}
        return first._replace(body=body, value=json.dumps(wire).encode(), at=self._now)

    def _to_an_end(self) -> None:
        """Move the clock to where a membership ends, or next to it."""
        ends = [
            row["until"]
            for dataset in self._model.datasets.values()
            for row in dataset.members.values()
            if row.get("until", 0) > self._now + 1
        ]
        if ends:
            self._now = min(ends) + self._chance.choice([-1, 0, 0, 1])

    def _one(self) -> Body:
        draw = self._chance.random()
        if draw < 0.08 or not self._model.datasets:
            return self._opening()
        if draw < 0.4:
            return self._member()
        if draw < 0.5:
            return self._amendment()
        if draw < 0.504:
            return self._owners("close")
        if draw < 0.52 or (draw < 0.56 and self._paused()):
            return self._brake()
        return self._request()

    def _name(self) -> str:
        known = [*self._model.datasets]
        odd = self._chance.random() < 0.02 or not known
        return self._chance.choice(DATASETS if odd else known)

    def _somebody(self, *likely: str) -> str:
        """Return one of the likely ones, mostly."""
        pool = likely if likely and self._chance.random() < 0.75 else PEOPLE
        return self._chance.choice(pool)

    def _owners(self, kind: str) -> Body:
        name = self._name()
        dataset = self._model.datasets.get(name)
        body: Body = {"version": 1, "type": kind, "dataset": name, "broken": False}
        body["by"] = self._somebody(*(dataset.owners if dataset else ()))
        if dataset and self._chance.random() < 0.1:
            body["follows"] = dataset.sequence - self._chance.choice([0, 0, 1])
        return body

    def _paused(self) -> list[str]:
        return [name for name, each in self._model.datasets.items() if each.paused]

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
        dataset = self._model.datasets.get(body["dataset"])
        others = [name for name in dataset.members if name not in dataset.owners] if dataset else []
        likely = others if chance.random() < 0.5 else []
        name = body["member"] = self._somebody(*likely)
        usual = ROLES_OF.get(name[0], ["auditor"])
        body["roles"] = (
            list(usual)
            if chance.random() < 0.5
            else chance.sample(ROLES, chance.choice([0, 0, 0, 1, 2, 4]))
        )
        if body["roles"] and chance.random() < 0.4:
            body["team"] = chance.choice(TEAMS)
        if body["roles"] and "owner" not in body["roles"] and chance.random() < 0.6:
            body["until"] = text_of(self._now + chance.choice(_UNTIL))
        if chance.random() < 0.1:
            body["as"] = "administrator"
        if chance.random() < 0.1:
            body["reason"] = "asked for"
        return self._perhaps_broken(body, self._wrong_of_a_member(body["roles"]))

    def _wrong_of_a_member(self, roles: list[str]) -> Body:
        until = text_of(self._now + 1000)
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
        dataset = self._model.datasets.get(body["dataset"])
        chance = self._chance
        if dataset and chance.random() < 0.3:
            epsilon = chance.choice(["0.01", "0.4", dataset.policy["epsilon"], "100"])
            body["policy"] = {**dataset.policy, "epsilon": epsilon}
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
            "broken": False,
        }
        if chance.random() < 0.35:
            body["via"] = self._somebody("engine-1", "engine-2", body["analyst"])
        return self._perhaps_broken(body, {"via": chance.choice(["", "a b", 1, "x" * 101])})

    def _perhaps_broken(self, body: Body, wrong: Body) -> Body:
        return {**body, **wrong, "broken": True} if self._chance.random() < 0.03 else body
