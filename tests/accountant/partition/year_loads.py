"""Records at random of a year: people around a budget, and all that an owner and a lead may do."""

from __future__ import annotations

import random
from typing import Any, Final

from tests.accountant.judged_life import Body
from tests.accountant.partition.member_loads import leads_of
from tests.accountant.reservations import loads
from tests.accountant.reservations.loads import ANALYSTS, ENGINES, OWNERS, TEAMS
from tests.faults.oracle import Partition
from tests.faults.oracle.dataset import Dataset
from tests.faults.oracle.periods import DAY
from tests.faults.oracle.reservations import Reservation
from tests.faults.oracle.texts import at_text

LEADS: Final = {"lea": "red", "lou": "blue"}
_NEWCOMERS: Final = ("nia", "noa")
_PARTS: Final = ("0.05", "0.1", "0.2", "0.3333", "0.5", "1")
_SHARES: Final = ("0.02", "0.05", "0.1", "0.2")
_ENDS: Final = (1, 500, 60_000, 3_600_000, DAY, 9 * DAY)
_LIVELY: Final = 4
"""How many datasets are open at least."""
_NOBODYS: Final = "sha256:" + "0" * 64


class Load(loads.Load):
    """Draws approvals, pauses, leads, ends, asks, raises, records and renewals among the others."""

    def __init__(self, chance: random.Random, judge: Partition, datasets: int) -> None:
        self._policies: dict[str, Body] = {}
        self._count = 0
        super().__init__(chance, judge, datasets)

    def _openings(self, datasets: int) -> list[Body]:
        return [self._of_a_year(body) for body in super()._openings(datasets)]

    def _more_openings(self) -> list[Body]:
        """Return as many openings again, under other names."""
        self._count += 1
        bodies = super()._openings(5)
        renamed = [{**body, "dataset": f"{body['dataset']}-{self._count}"} for body in bodies]
        return [self._of_a_year(body) for body in renamed]

    def _of_a_year(self, body: Body) -> Body:
        """Return an opening with what a year of people needs; another record as it is."""
        if body["type"] != "open":
            return body
        chance, policy = self._chance, dict(body["policy"])
        if chance.random() < 0.8:
            policy["approve_above"] = chance.choice(["0.005", "0.01", "0.02"])
            policy["approve_within"] = chance.choice(["P1D", "P2D", "P7D"])
        self._policies[body["dataset"]] = policy
        body = {**body, "policy": policy, "owners": [*OWNERS]}
        if chance.random() < 0.5:
            body["budget"] = {"epsilon": chance.choice(["0.5", "0.9"])}
        if chance.random() < 0.85:
            body["lifetime"] = {"epsilon": "900", "delta": "1e-2"}
        return body

    def _to_a_boundary(self) -> list[Reservation]:
        """Move the clock to where a limit ends, or an approval is due, or as ever."""
        if not self._judge.datasets or self._chance.random() < 0.5:
            return super()._to_a_boundary()
        dataset = self._dataset()
        ends = [each.until for each in dataset.division.in_force() if each.until is not None]
        ends += [row.deadline for row in dataset.approvals.rows.values()]
        later = [end for end in ends if self.now + 1 < end < self.now + 9 * DAY]
        if later:
            self.now = min(later) + self._chance.choice([-1, 0, 0, 1])
        return []

    def _one(self) -> Body:
        draw, known = self._chance.random(), self._judge.datasets
        lively = [name for name, each in known.items() if not each.closed]
        if known and len(lively) < _LIVELY and not self._opening:
            self._opening += self._more_openings()
        if self._opening or not known or draw < 0.55:
            return super()._one()
        makers = (
            *(self._answer, self._answer, self._answer, self._pause, self._more, self._reply),
            *(self._lead, self._lead, self._budget, self._outside, self._renewal),
        )
        return self._chance.choice(makers)()

    def _request(self, **fields: Any) -> Body:
        body = super()._request(**fields)
        if self._chance.random() < 0.06:  # an owner asks, and may not approve that
            body["analyst"] = self._somebody(*OWNERS)
        return body

    def _limit(self) -> Body:
        body = super()._limit()
        if self._chance.random() < 0.35:
            body["until"] = at_text(self.now + self._chance.choice(_ENDS))
        return body

    def _answer(self) -> Body:
        """Return an owner's answer to a request that waits, or has waited."""
        chance = self._chance
        rows = [
            (name, row)
            for name, each in self._judge.datasets.items()
            for row in each.approvals.rows.values()
        ]
        waiting = [place for place in rows if place[1].first is None][-8:]
        if not rows or chance.random() < 0.02:
            return {**self._owners("approve"), "pending": _NOBODYS}
        name, row = chance.choice(waiting if waiting and chance.random() < 0.9 else rows)
        body = self._owners(chance.choice(["approve"] * 4 + ["deny"]), name)
        body["by"] = chance.choice([*OWNERS] * 6 + [row.request["analyst"], *ENGINES[:1], "lea"])
        return {**body, "pending": row.hash, **self._why()}

    def _why(self) -> Body:
        return {"reason": 'for "table 4" ☃'} if self._chance.random() < 0.3 else {}

    def _pause(self) -> Body:
        chance = self._chance
        paused = [
            (name, pause)
            for name, each in self._judge.datasets.items()
            for pause in each.facts["person_pauses"]
        ]
        if paused and chance.random() < 0.6:
            name, pause = chance.choice(paused)
            target = {field: pause[field] for field in ("member", "team") if field in pause}
            return {**self._owners("resume_member", name), **target}
        target = {"member": self._somebody(*ANALYSTS, *ENGINES, *OWNERS)}
        if chance.random() < 0.3:
            target = {"team": self._somebody(*TEAMS)}
        kind = "pause_member" if chance.random() < 0.95 else "resume_member"
        why = {"reason": "left the project"} if kind == "pause_member" else {}
        return {**self._owners(kind), **target, **why}

    def _more(self) -> Body:
        chance = self._chance
        by = self._somebody(*ANALYSTS, *_NEWCOMERS, *LEADS)
        wanted: Body = chance.choice(
            [
                {"wants": "access", "role": chance.choice(["analyst", "auditor"])},
                {"wants": "limit", "part": chance.choice(_PARTS)},
                {"wants": "budget", "budget": {"epsilon": chance.choice(["0.9", "2", "9"])}},
            ]
        )
        body: Body = {"version": 1, "type": "more", "dataset": self._name(), "by": by}
        return {**body, "reason": "for table 4", **wanted}

    def _reply(self) -> Body:
        """Return an owner's answer to an ask, mostly one that gives what was asked for."""
        chance = self._chance
        asks = [
            (name, number, ask)
            for name, each in self._judge.datasets.items()
            for number, ask in each.asks.all.items()
            if ask["state"] == "open" or chance.random() < 0.1
        ]
        if not asks:
            return self._more()
        name, number, ask = chance.choice(asks)
        asker = ask["by"] if chance.random() < 0.95 else "eve"
        if chance.random() < 0.3:
            head = self._owners("decline", name)
            return {**head, "ask": number, "asker": asker, "reason": "not now"}
        wants = ask["wants"] if chance.random() < 0.95 else "access"
        answer: Body = {"answers": number, **self._why()}
        if wants == "access":
            roles = [ask.get("role", "analyst")]
            return {**self._owners("member", name), "member": asker, "roles": roles, **answer}
        if wants == "limit":
            fields = {"scope": "analyst", "name": asker, "part": ask.get("part", "0.1")}
            return {**self._owners("limit", name), **fields, **answer}
        budget = ask.get("budget", {"epsilon": "0.9"})
        return {**self._owners("budget", name), "budget": budget, **answer}

    def _lead(self) -> Body:
        """Return a record of a lead, within the team's own or beyond, or one that makes a lead."""
        chance = self._chance
        found = [each for each in leads_of(self._judge.datasets) if not self._is_closed(each[0])]
        if not found or chance.random() < 0.1:
            lead, team = chance.choice([*LEADS.items()])
            fields: Body = {"member": lead, "roles": ["lead"], "team": team}
            if chance.random() < 0.2:
                fields["until"] = at_text(self.now + chance.choice(_ENDS))
            return {**self._owners("member"), **fields}
        name, lead, team = chance.choice(found)
        dataset = self._judge.datasets[name]
        led = dataset.members.led(team)
        body: Body = {"version": 1, "dataset": name, "by": lead}
        who = chance.choice(led) if led and chance.random() < 0.85 else self._somebody(*ANALYSTS)
        if chance.random() < 0.25 or not led:
            joins = {"roles": ["analyst"], "team": team} if chance.random() < 0.7 else {"roles": []}
            who = chance.choice([who, *_NEWCOMERS])
            return {**body, "type": "member", "member": who, **joins}
        body |= {"type": "limit", "scope": "analyst", "name": who}
        return {**body, **self._within(dataset, team)}

    def _within(self, dataset: Dataset, team: str) -> Body:
        """Return what a lead's limit says: a removal, an amount, a share that moves, an end."""
        chance, said = self._chance, Body()
        if chance.random() < 0.2:
            return said
        if chance.random() < 0.6:
            said["part"] = chance.choice(_PARTS)
        if dataset.division.share_of("team", team) is not None or chance.random() < 0.2:
            said["reserved"] = chance.choice(_SHARES)
        pot = dataset.division.limits.get(("team", team))
        if pot is not None and pot.until is not None and chance.random() < 0.8:
            said["until"] = at_text(pot.until - chance.choice([0, 1, -1]))
        elif chance.random() < 0.2:
            said["until"] = at_text(self.now + chance.choice(_ENDS))
        return said

    def _is_closed(self, name: str) -> bool:
        return bool(self._judge.datasets[name].closed)

    def _budget(self) -> Body:
        epsilon = self._chance.choice(["0.3", "0.9", "1", "2", "3", "4", "50"])
        return {**self._owners("budget"), "budget": {"epsilon": epsilon}}

    def _outside(self) -> Body:
        """Return a record of a release made elsewhere, or a remark on a decision."""
        chance = self._chance
        if chance.random() < 0.2:
            number = chance.randrange(1, 200)
            return {**self._owners("remark"), "decision": number, "remark": "it never ran"}
        epsilon = "9" if chance.random() < 0.01 else chance.choice(["0.001", "0.01", "0.05"])
        at = self.now - chance.choice([0, 1, DAY, -1, 40 * DAY])
        body = {**self._owners("record"), "claim": {"type": "pure", "epsilon": epsilon}}
        body |= {"released_at": at_text(at), "evidence": "a published table"}
        if chance.random() < 0.6:
            body["team"] = self._somebody(*TEAMS)
        return body

    def _renewal(self) -> Body:
        """Return a renewal, mostly of a dataset that has used its budget; its members follow."""
        chance = self._chance
        used = [
            name
            for name, each in self._judge.datasets.items()
            if each.exhausted and not each.closed
        ]
        name = chance.choice(used) if used and chance.random() < 0.8 else self._name()
        policy = self._policies.get(name)
        if policy is None or (name not in used and chance.random() < 0.7):
            return self._budget()
        self._count += 1
        new = f"n{self._count}" if chance.random() < 0.95 else self._name()
        body = {**self._owners("renew", name), "renewed_as": new, "policy": policy}
        dataset = self._judge.datasets[name]
        if dataset.facts["lifetime"] is None or new in self._judge.datasets:
            return body
        self._policies[new] = policy
        members = dataset.members.all.items()
        self._opening += [
            {**self._owners("member", new), "member": who, "roles": ["analyst"]}
            for who, each in members
            if "analyst" in each.roles
        ]
        self._opening.append({**self._owners("amend", new), "access": "anyone"})
        return body
