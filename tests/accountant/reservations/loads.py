"""Records at random about reservations: few datasets, few people, short and long deadlines."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final

from tests.accountant.judged_life import Body, Ids, Sent
from tests.faults.oracle import Partition
from tests.faults.oracle.claims import refinements
from tests.faults.oracle.dataset import Dataset
from tests.faults.oracle.periods import DAY
from tests.faults.oracle.reservations import Reservation
from tests.faults.oracle.texts import at_text

OWNERS: Final = ("olga", "oda")
ANALYSTS: Final = ("ana", "ben", "cy", "dan", "eve")
ENGINES: Final = ("engine-1", "engine-2")
TEAMS: Final = ("red", "blue", "green")
_POLICIES: Final[tuple[Body, ...]] = (
    {"filter": "basic", "epsilon": "3", "delta": "1e-5"},
    {"filter": "zcdp_tight", "epsilon": "4", "delta": "2e-6", "delta_for_claims": "1e-6"},
    {"filter": "ex_post", "epsilon": "3", "delta": "1e-6"},
    {
        "filter": "split",
        "epsilon": "3",
        "delta": "2e-6",
        "delta_for_claims": "1e-6",
        "epsilon_ex_post": "1",
        "delta_ex_post": "1e-7",
    },
    {"filter": "fully_adaptive", "epsilon": "4", "delta": "2e-6", "delta_for_claims": "1e-6"},
)
FILTERS: Final = tuple(policy["filter"] for policy in _POLICIES)
_OWN_BUDGETS: Final[tuple[Body, ...]] = (
    {"filter": "basic", "epsilon": "0.5", "delta": "1e-7"},
    {"filter": "zcdp", "rho": "0.01", "delta": "1e-7"},
    {"filter": "fully_adaptive", "epsilon": "0.7", "delta": "1e-6"},
    {"filter": "ex_post", "epsilon": "0.4"},
)
_NOT_LOWERED: Final = {
    *("access", "visibility", "open_per_holder", "approve_above", "approve_within"),
}
_LATER: Final = (0, 0, 0, 0, 1, 400, 20_000, 60_000, 900_000, DAY // 12)
_UNTIL: Final = ("PT1M", "PT20M", "PT2H", "PT2H", "PT12H", "P1D", "P1D", "P3D", "P30D")
_RATIOS: Final = ("0.05", "0.1", "0.2", "0.25", "0.4", "0.6", "0.3333", "0.5", "0.75", "1")
_SHARES: Final = ("0.1", "0.15", "0.2", "0.3", "0.4", "0.6")
_PERIODS: Final = ("P1D", "P1D", "P2D", "P30D")
_SCALES: Final = ("8", "10", "12.5", "16", "20", "25", "40", "50", "80", "100", "125", "200", "1e9")
_VARIANCES: Final = ("100", "125", "200", "250", "400", "500", "800", "1000", "1600", "4000", "1e9")


class Load:
    """Draws inputs by what was committed, so that many of them are permitted."""

    def __init__(self, chance: random.Random, judge: Partition, datasets: int) -> None:
        self._chance = chance
        self._judge = judge
        self._ids = Ids()
        self._granted: dict[str, dict[str, None]] = {}
        self._sent: list[Sent] = []
        self._voided: set[str] = set()
        self._opening: list[Body] = [*self._openings(datasets)]
        self.now = judge.at

    def next(self) -> Sent:
        """Return the next input."""
        self.now += self._chance.choice(_LATER)
        due = self._to_a_boundary() if self._chance.random() < 0.08 else []
        if due and self._chance.random() < 0.7:
            row = self._chance.choice(due)
            return self._made(self._sent_by(row, row.request["dataset"], row.grant))
        if self._chance.random() < 0.03 and self._sent:
            return self._chance.choice(self._sent)._replace(at=self.now)
        self._sent = [*self._sent[-20:], self._made(self._one())]
        return self._sent[-1]

    def set_back(self) -> int:
        """Return a time to which the clock is set back."""
        back = self._chance.choice([1, 60_000, 3_600_000, DAY // 2, DAY, 3 * DAY])
        self.now = self._judge.at - back
        return self.now

    def _made(self, body: Body) -> Sent:
        issued = self.now
        if issued <= self._judge.floor:  # after the clock was set back
            issued = self._judge.floor + 1
            self.now = max(self.now, issued - 300_000)
        return Sent.made({**body, "request_id": self._ids.new(issued)}, self.now)

    def _to_a_boundary(self) -> list[Reservation]:
        """Move the clock to a deadline, to twice it, to an end of a period, or next to one.

        Returns: the reservations whose deadline that is.
        """
        if not self._judge.datasets:
            return []
        dataset = self._dataset()
        members = dataset.members.all.values()
        ends = [each.until for each in members if each.until is not None]
        reserved = dataset.reservations.open.values()
        ends += [each.deadline for each in reserved]
        ends += [int(each.final_at) for each in reserved if each.stage == "reserved"]
        ends += [
            limit.periods.around(self.now)[1]
            for limit in dataset.division.in_force()
            if limit.pace is not None
        ]
        later = [end for end in ends if self.now + 1 < end < self.now + 3 * DAY]
        if later:
            end = min(later) if self._chance.random() < 0.8 else self._chance.choice(later)
            self.now = end + self._chance.choice([-1, 0, 0, 1])
        return [each for each in reserved if abs(each.deadline - self.now) <= 1]

    def _openings(self, datasets: int) -> list[Body]:
        chance, found = self._chance, []
        for number in range(datasets):
            policy: Body = {**_POLICIES[number % len(_POLICIES)]}
            policy["odometers"] = []
            if number % 2:
                policy["open_per_holder"] = 2 + number
            if chance.random() < 0.4 and policy["filter"] in {"basic", "ex_post"}:
                policy["epsilon"] = "0.5"  # so that shares come to all that is left
            if chance.random() < 0.4:
                policy["access"] = "members"
            if chance.random() < 0.05:
                policy["halt_on_refusal"] = True
            if chance.random() < 0.2:
                policy["most_per_request"] = "0.04"
            if chance.random() < 0.3:
                policy["alert_at"] = chance.choice([["0.1", "0.2", "0.5"], ["0.05", "1"], []])
            found.append({**self._owners("open", f"d{number}"), "policy": policy})
            if chance.random() < 0.8:
                found += [
                    {**self._owners("member", f"d{number}"), "member": name, "roles": ["analyst"]}
                    for name in ANALYSTS
                ]
            if chance.random() < 0.8:
                head = self._owners("member", f"d{number}")
                found += [{**head, "member": name, "roles": ["engine"]} for name in ENGINES]
        for number in range(datasets, datasets + 3):
            found += self._shares_elsewhere(f"d{number}")
        return found

    def _shares_elsewhere(self, name: str) -> list[Body]:
        """Return how somebody reserves out of a share in a former team, and others take the rest.

        Given back, it cannot be promised again.
        """
        self._voided.add(name)
        share = self._chance.choice(["0.3", "0.4"])
        rest = {"0.3": "0.7", "0.4": "0.6"}[share]
        policy: Body = {"filter": "basic", "epsilon": "1", "odometers": []}
        member: Body = {**self._owners("member", name), "member": "ana", "roles": ["analyst"]}
        limit: Body = {**self._owners("limit", name), "reserved": share}
        request: Body = {"version": 1, "type": "request", "dataset": name, "unit": "person"}
        request["neighbours"] = "add_remove"
        ours: Body = {"analyst": "ana", "claim": {"type": "pure", "epsilon": share}}
        theirs: Body = {"analyst": "eve", "claim": {"type": "pure", "epsilon": rest}}
        return [
            {**self._owners("open", name), "policy": policy},
            {**member, "team": "red"},
            {**limit, "scope": "team", "name": "red"},
            {**limit, "scope": "analyst", "name": "ana"},
            {**member, "team": "blue"},
            {**limit, "scope": "team", "name": "blue"},
            {**request, **ours, "reserve": {"until": "P3D"}},
            {**request, **theirs},
        ]

    def _one(self) -> Body:
        draw, chance = self._chance.random(), self._chance
        if self._opening and (draw < 0.4 or not self._judge.datasets):
            body = self._opening.pop(0)
            return body if body["type"] in {"open", "request"} else {**body, "by": "olga"}
        if draw < 0.07:
            return self._limit()
        if draw < 0.14:
            return self._member()
        if draw < 0.15:
            return self._amendment()
        if draw < 0.153:
            return self._owners("close")
        paused = [name for name, each in self._judge.datasets.items() if each.facts["paused"]]
        if draw < 0.157 or (draw < 0.23 and paused):
            body = self._owners("resume" if paused else "pause")
            if paused and chance.random() < 0.9:
                body["dataset"] = chance.choice(paused)
            return body
        broken = [(n, r) for n in self._judge.datasets for r in self._broken(n)]
        if draw < 0.16 or (draw < 0.21 and broken):
            return self._resolve(broken)
        if draw < 0.35:
            return self._request()
        if draw < 0.6 or not any(self._open(name) for name in self._judge.datasets):
            return self._request(reserve={"until": chance.choice(_UNTIL)})
        return self._step()

    def _broken(self, name: str) -> list[str]:
        return [each.grant for each in self._open(name) if each.stage == "broken"]

    def _dataset(self) -> Dataset:
        return self._chance.choice([*self._judge.datasets.values()])

    def _name(self) -> str:
        known = [*self._judge.datasets]
        lively = [name for name in known if not self._judge.datasets[name].closed]
        if lively and self._chance.random() < 0.9:
            known = lively
        if self._chance.random() < 0.004 or not known:
            return "nowhere"
        return self._chance.choice(known)

    def _somebody(self, *names: str) -> str:
        return self._chance.choice(names)

    def _owners(self, kind: str, name: str | None = None) -> Body:
        chance = self._chance
        body: Body = {"version": 1, "type": kind, "dataset": name or self._name()}
        body |= {"by": "olga" if chance.random() < 0.97 else "ana"}
        if kind == "open":
            body["by"] = "olga"
        dataset = self._judge.datasets.get(body["dataset"])
        if dataset and kind != "open" and chance.random() < 0.05:
            body["follows"] = dataset.sequence - chance.choice([0, 0, 1])
        return body

    def _amendment(self) -> Body:
        body = self._owners("amend")
        known = self._judge.datasets.get(body["dataset"])
        policy: Body = {"filter": "basic", "epsilon": "0.9"}
        if known is not None:
            policy = {name: value for name, value in known.policy.items() if value is not None}
            policy["epsilon"] = self._chance.choice([policy["epsilon"], "0.9", "50"])
            policy = {n: v for n, v in policy.items() if n not in _NOT_LOWERED}
        return {**body, "policy": policy}

    def _member(self) -> Body:
        chance = self._chance
        body = self._owners("member")
        body["member"] = name = self._somebody(*ANALYSTS, *ANALYSTS, *ENGINES, *ENGINES, "oda")
        role = "engine" if name in ENGINES else "owner" if name == "oda" else "analyst"
        body["roles"] = [] if chance.random() < 0.12 else [role]
        if role == "analyst" and body["roles"] and chance.random() < 0.8:
            body["team"] = self._somebody(*TEAMS)
        if role != "owner" and body["roles"] and chance.random() < 0.12:
            body["until"] = at_text(self.now + chance.choice([1, 500, 3_600_000, DAY, 9 * DAY]))
        return body

    def _limit(self) -> Body:
        chance = self._chance
        body = self._owners("limit")
        dataset = self._judge.datasets.get(body["dataset"])
        body["scope"] = scope = chance.choice(["dataset", "team", "team", "analyst", "each"])
        if scope != "dataset":
            body["name"] = self._somebody(*(ANALYSTS if scope == "analyst" else TEAMS))
        known = dataset.division.in_force() if dataset else []
        teams = (
            {n: each.team for n, each in dataset.members.all.items() if each.team is not None}
            if dataset
            else {}
        )
        if dataset and teams and chance.random() < 0.3:  # a share within a team's
            body["name"], team = chance.choice([*teams.items()])
            body |= {"scope": "analyst", "reserved": chance.choice(_SHARES)}
            if dataset.division.share_of("team", team) is None:
                body |= {"scope": "team", "name": team}
            return body
        if known and chance.random() < 0.4:
            head = chance.choice(known).head
            body = {**{n: v for n, v in body.items() if n != "name"}, **head}
            scope = body["scope"]
            if chance.random() < 0.35:
                return body
        if scope != "dataset" and chance.random() < 0.7:
            if chance.random() < 0.7:
                body["part"] = chance.choice(_RATIOS)
            else:
                body["policy"] = dict(chance.choice(_OWN_BUDGETS))
        if scope == "dataset" or chance.random() < 0.45:
            body["pace"] = {"part": chance.choice(_RATIOS), "period": chance.choice(_PERIODS)}
        if scope in {"team", "analyst"} and chance.random() < 0.6:
            body["reserved"] = chance.choice(_SHARES)
        return body

    def _resolve(self, broken: Sequence[tuple[str, str]]) -> Body:
        chance = self._chance
        body = self._owners("resolve")
        body["grant"] = self._any_grant(body["dataset"])
        if broken and chance.random() < 0.9:
            body["dataset"], body["grant"] = chance.choice(broken)
            body.pop("follows", None)
        if chance.random() < 0.5:
            body["mistaken"] = "the wrong scale was sent"
        else:
            filter_name = "basic"
            if body["dataset"] in self._judge.datasets:
                filter_name = self._judge.datasets[body["dataset"]].policy["filter"]
            body["claim"] = self._claim(filter_name)
        return body

    def _any_grant(self, name: str) -> str:
        chance = self._chance
        known = self._judge.datasets.get(name)
        granted, grants = self._granted.setdefault(name, {}), list[str]()
        if known is not None:
            rows = known.reservations.rows
            granted |= dict.fromkeys(rows)
            gone = [grant for grant in granted if grant not in rows]
            grants = [*known.reservations.open, *gone[-5:]]
        if grants and chance.random() < 0.98:
            return chance.choice(grants)
        return f"sha256:{chance.getrandbits(256):064x}"

    def _request(self, **fields: Any) -> Body:
        chance = self._chance
        name = self._name()
        dataset = self._judge.datasets.get(name)
        filter_name = dataset.policy["filter"] if dataset else "basic"
        claim = self._claim(filter_name)
        draw = chance.random()
        if draw < 0.05:
            claim = {"type": "repeat", "claim": claim, "times": chance.choice([1, 2, 5])}
        elif draw < 0.08:
            claim = {"type": "all_of", "claims": [claim, self._claim(filter_name)]}
        body: Body = {
            "version": 1,
            "type": "request",
            "dataset": name,
            "analyst": self._analyst(dataset),
            "unit": "person" if chance.random() < 0.99 else "household",
            "neighbours": "add_remove",
            "claim": claim,
        }
        if chance.random() < 0.15:
            body["via"] = self._somebody(*ENGINES)
        body |= fields
        for part in refinements(claim):
            if "reserve" in body or chance.random() < 0.5:
                self._continue(body, part)
        return body

    def _continue(self, body: Body, claim: Body) -> None:
        """Name a grant that a claim continues: most are sessions that have settled."""
        chance, known = self._chance, self._judge.datasets.get(body["dataset"])
        claim["continues"] = self._any_grant(body["dataset"])
        rows = {} if known is None else known.reservations.rows
        settled = [each for each in rows.values() if each.stage == "settled"]
        if not settled or chance.random() < 0.1:
            return
        session = chance.choice(settled)
        if chance.random() < 0.9:
            body["analyst"] = session.request["analyst"]
        level = float(session.settled)
        previous = chance.choice([level, level, level, 2 * level, level * 0.99])
        levels = {"previous": previous, "first": previous * 0.95, "variance": previous * 0.9}
        claim |= {"continues": session.grant}
        claim |= {name: f"{value:.6f}" for name, value in levels.items()}

    def _analyst(self, dataset: Dataset | None) -> str:
        known = [] if dataset is None else [n for n in dataset.members.all if n in ANALYSTS]
        if known and self._chance.random() < 0.9:
            return self._chance.choice(known)
        return self._somebody(*ANALYSTS)

    def _claim(self, filter_name: str) -> Body:
        """Return a claim; most are ones that the filter accepts."""
        chance = self._chance
        epsilon = chance.choice(["0.02", "0.05", "0.1", "0.2"])
        sigma = chance.choice(["20", "30", "60"])
        rho = chance.choice(["0.0002", "0.001", "0.005"])
        delta = chance.choice(["1e-8", "5e-8"])
        ex_post = self._noise_reduction, self._noise_reduction, self._plain_ex_post
        gaussian = self._brownian, self._brownian, self._plain_brownian
        makers: dict[str, Any] = {
            "basic": (*ex_post, lambda: {"type": "pure", "epsilon": epsilon}),
            "ex_post": ex_post,
            "split": (*ex_post, *gaussian, lambda: {"type": "zcdp", "rho": rho}),
            "zcdp_tight": (*gaussian, self._noise_reduction),
            "fully_adaptive": (*gaussian, self._noise_reduction),
        }
        others: list[Any] = [
            lambda: {"type": "pure", "epsilon": epsilon},
            lambda: {"type": "gaussian", "sigma": sigma, "sensitivity": "1"},
            lambda: {"type": "zcdp", "rho": rho},
            lambda: {"type": "approximate", "epsilon": epsilon, "delta": delta},
            lambda: {"type": "laplace", "scale": "20", "sensitivity": "1"},
            lambda: {"type": "bounded_range", "eta": epsilon},
        ]
        known = makers[filter_name]
        found: Body = chance.choice(known if chance.random() < 0.75 else others)()
        return found

    def _noise_reduction(self) -> Body:
        least = self._chance.choice(["10", "12.5", "20", "40"])
        epsilon = {"10": "0.1", "12.5": "0.08", "20": "0.05", "40": "0.025"}[least]
        first = self._chance.choice(["40", "50", "100", "200"])
        body: Body = {"type": "ex_post", "epsilon": epsilon}
        return body | {"sensitivity": "1", "first": first, "least": least}

    def _plain_ex_post(self) -> Body:
        body: Body = {"type": "ex_post", "epsilon": self._chance.choice(["0.02", "0.05", "0.1"])}
        return body | ({"delta": "2e-8"} if self._chance.random() < 0.4 else {})

    def _brownian(self) -> Body:
        variance = self._chance.choice(["125", "250", "500"])
        body: Body = {"type": "brownian", "variance": variance, "sensitivity": "1"}
        body["first"] = self._chance.choice(["500", "1000", "4000"])
        if self._chance.random() < 0.4:
            body["previous"] = self._chance.choice(["5000", "8000"])
        if self._chance.random() < 0.3:
            body["sampler"] = self._chance.choice(["normal", "discrete"])
        return body

    def _plain_brownian(self) -> Body:
        return {name: value for name, value in self._brownian().items() if name != "first"}

    def _step(self) -> Body:
        chance = self._chance
        places = [(name, each) for name in self._judge.datasets for each in self._open(name)]
        if not places or chance.random() < 0.04:
            name = self._name()
            return self._sent_by(None, name, self._any_grant(name))
        begun = [place for place in places if place[1].stage == "begun"]
        name, reservation = chance.choice(begun if begun and chance.random() < 0.5 else places)
        return self._sent_by(reservation, name, reservation.grant)

    def _open(self, name: str) -> list[Reservation]:
        return list(self._judge.datasets[name].reservations.open.values())

    def _sent_by(self, of: Reservation | None, name: str, grant: str) -> Body:
        chance = self._chance
        request: Body = {"analyst": "ana"} if of is None else of.request
        dataset = self._judge.datasets.get(name)
        found = None if dataset is None else dataset.reservations.open.get(grant)
        stage = "reserved" if found is None else found.stage
        kinds = {
            "reserved": ["begin"] * 10 + ["void"] * 7 + ["settle"] * 2,
            "begun": ["settle"] * 12 + ["void", "begin"],
            "broken": ["settle", "begin", "void"],
        }[stage]
        if name in self._voided and stage == "reserved":
            kinds = ["void"] * 9 + ["begin"]
        body: Body = {"version": 1, "type": chance.choice(kinds), "dataset": name, "grant": grant}
        draw = chance.random()
        body["analyst"] = request["analyst"]
        if draw < 0.06:
            body["analyst"] = self._somebody(*ANALYSTS)
        elif draw < 0.2 and body["type"] == "void" and found is not None:
            body["analyst"] = self._somebody(*OWNERS)
        elif draw < 0.08:
            body["analyst"] = "olga"
        if "via" in request and chance.random() < 0.6:
            body["via"] = request["via"]
        elif chance.random() < 0.04:
            body["via"] = self._somebody(*ENGINES)
        if body["type"] == "settle":
            body |= self._level_shown({} if found is None else found.request["claim"])
        return {**body}

    def _level_shown(self, claim: Body) -> Body:
        chance = self._chance
        is_session = "first" in claim
        if chance.random() < (0.15 if is_session else 0.9):
            return {}
        levels = _VARIANCES if claim.get("type") == "brownian" else _SCALES
        if is_session and chance.random() < 0.7:
            least = float(claim["least"] if claim["type"] == "ex_post" else claim["variance"])
            first = float(claim["first"])
            within = [each for each in levels if least <= float(each) <= first]
            return {"shown": chance.choice(within)} if within else {}
        return {"shown": chance.choice(levels)}
