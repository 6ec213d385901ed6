"""Records at random over one dataset or several: requests, reservations, steps, owners' records."""

from __future__ import annotations

import random
from typing import Final

from tests.accountant.judged_life import SKEW, WINDOW, Body, Ids, Sent
from tests.faults.oracle import Partition
from tests.faults.oracle.reservations import Reservation

ANALYSTS: Final = ("ana", "bob")
_POLICIES: Final[tuple[Body, ...]] = (
    {"filter": "basic", "epsilon": "1", "delta": "1e-6"},
    {"filter": "basic", "epsilon": "10", "delta": "0"},
    {"filter": "basic", "epsilon": "3", "delta": "0"},
    {"filter": "zcdp", "rho": "0.5", "delta": "1e-6"},
    {"filter": "fully_adaptive", "epsilon": "5", "delta": "1e-6"},
)
_EPSILONS: Final = ("0.001", "0.01", "0.015", "0.0625", "0.25", "0.3")
_SCALES: Final = ("25", "40", "50", "80", "100", "100", "5", "101")
"""Levels of a session of sensitivity 1 from 100 to 10; one is beyond its maximum, one above."""
_VARIANCES: Final = ("900", "1000", "2500", "4000", "100")
_NOISE_REDUCTION: Final[Body] = {
    "type": "ex_post",
    "epsilon": "0.1",
    "sensitivity": "1",
    "first": "100",
    "least": "10",
}
_BROWNIAN: Final[Body] = {
    "type": "brownian",
    "variance": "900",
    "sensitivity": "1",
    "first": "4000",
}


class Load:
    """Draws inputs by what was committed, so that many of them are permitted."""

    def __init__(self, chance: random.Random, judge: Partition) -> None:
        self._chance = chance
        self._judge = judge
        self._ids = Ids()
        self._sent: list[Sent] = []
        self._opened = 0
        self._granted: dict[str, Reservation] = {}
        self.now = judge.at

    def next(self) -> Sent:
        """Return the next input."""
        chance = self._chance
        self.now += chance.choice([0, 0, 1, 1_000, 1_000, 60_000, 200_000])
        if chance.random() < 0.008:
            self.now += chance.choice([WINDOW // 4, WINDOW, 5 * WINDOW])
        if chance.random() < 0.07 and self._sent:
            return self._again()
        body = self._one()
        sent = Sent.made({**body, "request_id": self._ids.new(self.now)}, self.now)
        self._sent = [*self._sent[-40:], sent]
        return sent

    def set_back(self) -> int:
        """Return a time to which the clock is set back."""
        back = self._judge.at - self._chance.choice([1_000, WINDOW, 3 * WINDOW])
        self.now = back + SKEW + 1
        return back

    def _again(self) -> Sent:
        """Send something again, perhaps with another text."""
        first = self._chance.choice(self._sent)
        if self._chance.random() < 0.7 or first.body["type"] != "request":
            return first._replace(at=self.now)
        return Sent.made({**first.body, "purpose": "another"}, self.now)

    def _one(self) -> Body:
        names, way = [*self._judge.datasets], self._chance.random()
        for dataset in self._judge.datasets.values():
            self._granted |= dataset.reservations.rows
        if len(names) < 2 or way < 0.015:
            return self._opening()
        if way < 0.05:
            return self._brake(names)
        if way < 0.09:
            return self._member_or_limit(names)
        likely = self._likely()
        if way < 0.5 and likely:
            return self._step(self._chance.choice(likely))
        broken = [row for row in self._granted.values() if row.stage == "broken"]
        if way < 0.54 and broken:
            return self._resolve(self._chance.choice(broken))
        return self._request(names)

    def _owners(self, kind: str, dataset: str, **fields: object) -> Body:
        by = "owner" if self._chance.random() < 0.97 else "ana"
        return {"version": 1, "type": kind, "dataset": dataset, "by": by, **fields}

    def _opening(self) -> Body:
        policy = {**self._chance.choice(_POLICIES), "odometers": []}
        if self._chance.random() < 0.2:
            policy["halt_on_refusal"] = True
        if self._chance.random() < 0.2:
            policy["access"] = "members"
        self._opened += 1
        return self._owners("open", f"d{self._opened}", by="owner", policy=policy)

    def _brake(self, names: list[str]) -> Body:
        paused = [name for name in names if self._judge.datasets[name].facts["paused"]]
        kind = "resume" if paused else "pause"
        if not paused and self._chance.random() < 0.03:
            kind = "close"
        return self._owners(kind, self._chance.choice(paused or names))

    def _member_or_limit(self, names: list[str]) -> Body:
        chance, name = self._chance, self._chance.choice(names)
        analyst = chance.choice(ANALYSTS)
        if chance.random() < 0.5:
            roles = chance.choice([[], ["analyst"], ["analyst"], ["analyst", "owner"]])
            return self._owners("member", name, member=analyst, roles=roles)
        body = self._owners("limit", name, scope="analyst", name=analyst)
        body["part"] = chance.choice(["0.1", "0.25", "0.5", "1"])
        if chance.random() < 0.3:
            body["pace"] = {"part": chance.choice(["0.1", "0.5"]), "period": "P1D"}
        return body

    def _resolve(self, row: Reservation) -> Body:
        name = self._chance.choice(row.datasets or [row.request["dataset"]])
        if self._chance.random() < 0.7:
            return self._owners("resolve", name, grant=row.grant, mistaken="a typo")
        claim = {"type": "pure", "epsilon": "0.001"}
        return self._owners("resolve", name, grant=row.grant, claim=claim)

    def _likely(self) -> list[Reservation]:
        """Return reservations that a step may be about: mostly open ones, if there are some."""
        rows = {
            grant: row
            for dataset in self._judge.datasets.values()
            for grant, row in dataset.reservations.open.items()
        }
        return [*(rows if self._chance.random() < 0.85 else self._granted).values()]

    def _step(self, row: Reservation) -> Body:
        """Return a step of a reservation: most often of its analyst, on its first dataset."""
        chance, request = self._chance, row.request
        kind = chance.choice(["begin", "begin", "settle", "void"])
        if row.stage == "begun" and chance.random() < 0.7:
            kind = "settle"
        analyst = request["analyst"]
        if chance.random() < 0.1:
            analyst = chance.choice([*ANALYSTS, "owner"])
        name = request["dataset"]
        if chance.random() < 0.2 and row.datasets:
            name = chance.choice(row.datasets)
        body: Body = {"version": 1, "type": kind, "grant": row.grant}
        body |= {"analyst": analyst, "dataset": name}
        if kind == "settle" and chance.random() < 0.7:
            is_brownian = request["claim"]["type"] == "brownian"
            body["shown"] = chance.choice(_VARIANCES if is_brownian else _SCALES)
        return body

    def _request(self, names: list[str]) -> Body:
        chance = self._chance
        chance.shuffle(names)
        names = names[: chance.choice([1, 2, 2, 3, 16])]
        if chance.random() < 0.02:
            names.insert(chance.randrange(len(names) + 1), "nothing")
        body: Body = {"version": 1, "type": "request", "dataset": names[0]}
        body["analyst"] = chance.choice(ANALYSTS)
        body["claim"] = {"type": "pure", "epsilon": chance.choice(_EPSILONS)}
        if chance.random() < 0.4:
            body["reserve"] = {"until": f"PT{chance.choice([5, 30, 90])}M"}
            draw = chance.random()
            if draw < 0.7:
                body["claim"] = _NOISE_REDUCTION if draw < 0.4 else _BROWNIAN
        body |= {"unit": "person", "neighbours": "add_remove"}
        if others := names[1:16]:
            body["other_datasets"] = others
        if chance.random() < 0.03:
            wrong = [[], [names[0]], ["d1", "d1"], ["a/b"], "d1", None]
            body["other_datasets"] = chance.choice(wrong)
        ended = [row for row in self._granted.values() if row.stage == "settled"]
        if ended and chance.random() < 0.1:
            self._continue(body, chance.choice(ended))
        return body

    def _continue(self, body: Body, row: Reservation) -> None:
        """Continue a session that has settled, mostly over its own datasets."""
        settled = float(row.settled)
        claim = {**_BROWNIAN, "continues": row.grant, "previous": row.settled}
        claim |= {"first": f"{settled * 0.95:.4f}", "variance": f"{settled * 0.9:.4f}"}
        body |= {"claim": claim, "analyst": row.request["analyst"]}
        if self._chance.random() < 0.7:
            body["dataset"] = row.request["dataset"]
            body.pop("other_datasets", None)
            if row.datasets:  # the same ones, in any order
                names = self._chance.sample(row.datasets, len(row.datasets))
                body |= {"dataset": names[0], "other_datasets": names[1:]}
