"""The people of a load: owners of datasets, records of members, engines that ask for analysts."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any, Final

Body = dict[str, Any]

OWNER: Final = "owner-1"
ANALYSTS: Final = tuple(f"analyst-{number}@example.org" for number in range(5))
ENGINES: Final = ("engine-1", "engine-2")
OTHERS: Final = ("owner-2", "auditor-1", "stranger-1")
EVERYBODY: Final = (OWNER, *ANALYSTS, *ENGINES, *OTHERS)
ROLES: Final = ("owner", "analyst", "engine", "auditor")
_HOUR: Final = 3_600_000


def time_text(at: int) -> str:
    """Return a time in milliseconds as the log writes it."""
    moment = datetime.fromtimestamp(at // 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at % 1000:03d}Z"


class People:
    """Draws the people of a load, from a seed of its own."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def opened(self, number: int) -> tuple[Body, Body]:
        """Return the fields about people of an opening and of its policy."""
        fields: Body = {"owners": [OWNER, "owner-2"]} if number % 4 == 1 else {}
        policy: Body = {}
        if number % 6 == 2:
            policy["access"] = "members"
        elif number % 6 == 0:
            policy["access"] = "anyone"
        if number % 5 == 1:
            policy["visibility"] = ("own", "members")[number % 2]
        if number % 7 < 3:
            policy["population"] = ("city", "country")[number % 2]
        return fields, policy

    def enrolments(self) -> list[Body]:
        """Return the members that a dataset needs before anybody can ask."""
        analysts = [{"member": name, "roles": ["analyst"], "team": "blue"} for name in ANALYSTS[:4]]
        return [*analysts, {"member": ENGINES[0], "roles": ["engine"]}]

    def via(self) -> Body:
        """Return the field of a request with the engine that asks for the analyst, mostly none."""
        if self._chance.random() > 0.1:
            return {}
        return {"via": self._chance.choice([*ENGINES, ENGINES[0], "stranger-1", ANALYSTS[0]])}

    def by(self) -> Body:
        """Return the sender of an admin request."""
        return {"by": self._chance.choice([OWNER] * 8 + ["owner-2", "stranger-1"])}

    def member(self, now: int) -> Body:
        """Return the fields of a member's record, without those that every admin request has."""
        chance = self._chance
        if chance.random() < 0.08:
            return {"by": OWNER, "member": OWNER, "roles": []}
        name = chance.choice([*EVERYBODY, *ANALYSTS, *ENGINES, OWNER])
        roles = chance.sample(ROLES, chance.choice([0, 0, 0, 0, 1, 4]))
        if chance.random() < 0.4:
            roles = [name.partition("-")[0]] if name.partition("-")[0] in ROLES else ["analyst"]
        body: Body = {**self.by(), "member": name, "roles": roles}
        if roles and chance.random() < 0.4:
            body["team"] = chance.choice(["blue", "red", "a:b@c"])
        if roles and "owner" not in roles and chance.random() < 0.4:
            off = chance.choice([-1, 0, 1, 300, 5_000, _HOUR // 10, _HOUR, 30 * _HOUR])
            body["until"] = time_text(now + off)
        if chance.random() < 0.1:
            body["as"] = "administrator"
        if chance.random() < 0.1:
            body["follows"] = chance.randrange(1, 60)
        if chance.random() < 0.05:
            body = {"team": None, "until": None, "as": None, "follows": None, **body}
        if chance.random() < 0.2:
            body["reason"] = 'é "asked for" ☃'
        return body

    def pause(self, paused: list[Body]) -> Body:
        """Return the fields of a pause of a person or a team, or of the end of one.

        Args:
            paused: the person or the team of each pause of the dataset, as this load knows them.
        """
        chance = self._chance
        target = [{"member": chance.choice([*ANALYSTS, *EVERYBODY])}] * 3
        target.append({"team": chance.choice(["blue", "blue", "red"])})
        if paused and chance.random() < 0.7:
            body = {"type": "resume_member", **chance.choice(paused)}
        else:
            body = {"type": "pause_member", **chance.choice([*target, *paused[:1]])}
            body["reason"] = chance.choice(["left the project", 'é "asked for" ☃'])
        if chance.random() < 0.1:
            body = {**body, "type": "resume_member", **chance.choice(target)}
            body = {name: each for name, each in body.items() if name in ("type", "member")}
            body.setdefault("member", ANALYSTS[0])
        if chance.random() < 0.15:
            return {**body, "as": "administrator", "by": "admin"}
        return {**self.by(), **body}

    def broken_pause(self) -> Body:
        """Return the fields of such a record, one of them invalid."""
        sound: Body = {"type": "pause_member", "member": ANALYSTS[0], "reason": "why"}
        wrong: list[Body] = [
            {"team": "blue"},
            {"member": None},
            {"member": "a b"},
            {"member": None, "team": ""},
            {"reason": ""},
            {"reason": "x" * 201},
            {"until": "2027-01-01T00:00:00.000Z"},
        ]
        return sound | self._chance.choice(wrong)

    def broken_member(self, now: int) -> Body:
        """Return such fields, one of them invalid."""
        sound: Body = {**self.by(), "member": "analyst-9", "roles": ["analyst"]}
        until = time_text(now + _HOUR)
        wrong: list[Body] = [
            {"roles": [], "team": "blue"},
            {"roles": [], "until": until},
            {"roles": ["analyst", "owner"], "until": until},
            {"roles": ["analyst", "analyst"]},
            {"roles": ["reader"]},
            {"roles": "analyst"},
            {"roles": [1]},
            {"until": until[:-5] + "Z"},
            {"until": "2026-02-30T00:00:00.000Z"},
            {"until": now},
            {"team": "a b"},
            {"member": ""},
            {"as": "owner"},
            {"population": "city"},
        ]
        return sound | self._chance.choice(wrong)

    def broken_opening(self) -> tuple[Body, Body]:
        """Return the fields of an opening, and of its policy, of which one breaks a rule."""
        wrong: list[tuple[Body, Body]] = [
            ({"owners": []}, {}),
            ({"owners": [OWNER, OWNER]}, {}),
            ({"owners": ["a/b"]}, {}),
            ({"owners": OWNER}, {}),
            ({"owners": None}, {}),
            ({}, {"access": None}),
            ({"owners": [f"o-{number}" for number in range(101)]}, {}),
            ({}, {"access": "owners"}),
            ({}, {"visibility": "all"}),
            ({}, {"population": "a b"}),
            ({}, {"population": 1}),
            ({}, {"population": "all::1"}),
        ]
        return self._chance.choice(wrong)

    def broken_via(self) -> Body:
        """Return a `via` of an unknown engine."""
        return {"via": self._chance.choice(["", "a/b", 1, "x" * 101, None])}
