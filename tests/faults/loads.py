"""Loads that touch every rule: all filters and claims, repeats, ids at the edge, bad bodies."""

from __future__ import annotations

import hashlib
import heapq
import json
import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Final, NamedTuple

from tests.faults.load_asks import AskLoad
from tests.faults.load_leads import LeadLoad
from tests.faults.load_limits import TEAMS, LimitLoad
from tests.faults.load_reservations import ReservationLoad
from tests.faults.oracle.texts import at_text
from tests.faults.people import ANALYSTS, OWNER, People

Body = dict[str, Any]
_WINDOW: Final = 3_600_000
_SKEW: Final = 300_000


class SentInput(NamedTuple):
    """One input of a load.

    Attributes:
        later: by how many milliseconds the clock moves on before it.
    """

    source: str
    value: bytes
    later: int


def id_at(at: int, chance: random.Random) -> str:
    """Return a request id issued at a time in milliseconds."""
    digits = f"{at:012x}7{chance.getrandbits(12):03x}8{chance.getrandbits(60):015x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


EVERY_ODOMETER: Final[list[Body]] = [
    {"type": "basic"},
    {"type": "linear", "delta": "1e-6", "y": "0.01"},
    {"type": "mixture", "delta": "1e-6", "r": "0.01"},
    {"type": "one_sided_mixture", "delta": "1e-6", "r": "0.01"},
    {"type": "one_sided_mixture_exact", "delta": "1e-6", "r": "0.01"},
    {"type": "stitched", "delta": "1e-6", "v0": "0.0001"},
    {"type": "advanced_2016", "delta": "1e-6", "beta": "0.01"},
    {"type": "advanced_2016_n", "delta": "1e-6", "n": 1000},
]
COMBINED: Final[Body] = {"type": "combined", "odometers": EVERY_ODOMETER[1:6]}
WITH_DELTA: Final[Body] = {"delta": "2e-6", "delta_for_claims": "1e-6"}
_POLICIES: Final[list[Body]] = [
    {"epsilon": "1", "delta": "1e-6"},
    {"epsilon": "0.7", **WITH_DELTA, "most_per_request": "0.1"},
    {"filter": "basic", "epsilon": "1", "delta": "1e-6", "odometers": EVERY_ODOMETER},
    {"filter": "basic", "epsilon": "0.3", "delta": "1e-6", "halt_on_refusal": True},
    {"filter": "basic", "epsilon": "2", "unit": "household", "most_per_request": "0.25",
     "approve_above": "0.01"},
    {"filter": "zcdp", "rho": "0.05", "delta": "1e-7", "alert_at": ["0.25", "0.5", "0.9"]},
    {"filter": "fully_adaptive", "epsilon": "2", **WITH_DELTA, "odometers": EVERY_ODOMETER,
     "horizon": "P30D"},
    {"filter": "advanced_2016", "epsilon": "1", "delta": "1e-6", "odometers": [COMBINED]},
    {"filter": "ex_post", "epsilon": "1", "delta": "1e-6", "odometers": [{"type": "basic"}]},
    {"filter": "split", "epsilon": "1", **WITH_DELTA, "epsilon_ex_post": "0.5",
     "delta_ex_post": "1e-7", "odometers": [*EVERY_ODOMETER[:4], COMBINED]},
    {"filter": "unified_brownian", "rho": "0.05", "delta": "1e-7"},
    {"filter": "unified_brownian", "epsilon": "1", **WITH_DELTA, "halt_on_refusal": True},
    {"filter": "gdp_residue", "epsilon": "1", **WITH_DELTA},
    {"filter": "gdp_residue", "epsilon": "0.5", "delta": "1e-6", "most_per_request": "0.2"},
    {"filter": "renyi", "epsilon": "1", "delta": "1e-6", "order": "22",
     "neighbours": "replace"},
    {"filter": "optimal_homogeneous", "epsilon": "1", **WITH_DELTA, "epsilon_each": "0.05"},
    {"filter": "renyi_weighted", "epsilon": "1", "delta": "1e-6", "orders": ["18", "40.5"]},
    {"filter": "renyi_weighted", "epsilon": "1", "delta": "1e-6", "orders": ["8", "24", "300"],
     "weights": ["0.5", "0.3", "0.2"], "most_per_request": "0.5"},
    {"filter": "renyi_mixture", "epsilon": "1", "delta": "1e-6", "orders": ["18", "22", "40.5"],
     "most_per_request": "0.5"},
    {"epsilon": "1", **WITH_DELTA, "beside": "basic", "most_per_request": "0.1",
     "approve_above": "0.005", "approve_within": "P1D"},
    {"filter": "gdp_residue", "epsilon": "0.5", **WITH_DELTA, "beside": "basic",
     "odometers": [{"type": "basic"}, COMBINED]},
    {"filter": "advanced_2016", "epsilon": "1", "delta": "1e-6", "beside": "basic"},
    {"filter": "fully_adaptive", "epsilon": "0.05", "delta": "1e-6", "beside": "basic"},
    {"filter": "split", "epsilon": "0.5", **WITH_DELTA, "epsilon_ex_post": "0.25",
     "delta_ex_post": "1e-7", "beside": "basic"},
    {"filter": "unified_brownian", "epsilon": "1", **WITH_DELTA, "beside": "basic",
     "halt_on_refusal": True},
    {"filter": "renyi", "epsilon": "1", "delta": "1e-6", "order": "22", "beside": "basic"},
    {"filter": "renyi_weighted", "epsilon": "1", "delta": "1e-6", "orders": ["16", "40.5"],
     "beside": "basic", "most_per_request": "0.4"},
    {"filter": "gdp_residue", "epsilon": "1", **WITH_DELTA, "outside": True},
]  # fmt: skip
POLICIES: Final[list[Body]] = [
    each if each.get("filter") == "zcdp" else {**each, "open_per_holder": 1} for each in _POLICIES
]
BROKEN: Final[list[Body]] = [
    {"filter": "basic"},
    {"filter": "zcdp", "epsilon": "1"},
    {"filter": "none", "epsilon": "1"},
    {"epsilon": "1", "delta": "0"},
    {"epsilon": "1", "delta": "1e-6", "order": "2"},
    {"epsilon": "1", "delta": "1e-6", "alert_at": ["0.5", "0.5"]},
    {"epsilon": "1", "delta": "1e-6", "most_per_request": "1.5"},
    {"epsilon": "1", "delta": "1e-6", "horizon": "1 day"},
    {"filter": "renyi", "epsilon": "1", "delta": "1e-6"},
    {"filter": "renyi", "epsilon": "0.1", "delta": "1e-6", "order": "2"},
    {"filter": "advanced_2016", "epsilon": "1", "delta": "0.5"},
    {"filter": "optimal_homogeneous", "epsilon": "1", "delta": "1e-6"},
    {"filter": "optimal_homogeneous", "epsilon": "1", "delta": "1e-6", "epsilon_each": "1.5"},
    {"epsilon": "1", "delta": "1e-6", "outside": True},
    {"epsilon": "1", "delta": "1e-6", "approve_above": "0"},
    {"epsilon": "1", "delta": "1e-6", "approve_within": "P7D"},
    {"epsilon": "1", "delta": "1e-6", "approve_above": "0.1", "approve_within": "P31D"},
    {"filter": "gdp_residue", "epsilon": "1", "delta": "1e-6", "outside": "yes"},
    {"epsilon": 1, "delta": "1e-6"},
    {"epsilon": "1", "delta": "1e-6", "beside": "none"},
    {"epsilon": "1", "delta": "1e-6", "beside": None},
    {"filter": "basic", "epsilon": "1", "beside": "basic"},
    {"filter": "zcdp", "rho": "0.1", "beside": "basic"},
    {"filter": "unified_brownian", "rho": "0.1", "beside": "basic"},
]


class Load:
    """A load of one seed: the same inputs each time.

    Args:
        start: the clock's first time, milliseconds since 1970.
        datasets: how many to open under each policy.
        renewals: which part of the records renews a dataset; 0 opens none with a lifetime.
        asks: which part asks for more, or answers.
    """

    def __init__(
        self,
        seed: int,
        start: int,
        *,
        window: int = _WINDOW,
        skew: int = _SKEW,
        datasets: int = 1,
        renewals: float = 0.0,
        asks: float = 0.0,
    ) -> None:
        self.chance = random.Random(seed)
        self._wraps = random.Random(seed + 1)
        self._people = People(seed + 2)
        self._limit_load = LimitLoad(seed + 3)
        self._brakes = random.Random(seed + 6)
        self._budgets = random.Random(seed + 6)
        self._outside = random.Random(seed + 8)
        self._reservations = ReservationLoad(seed + 7)
        self._ask_load = AskLoad(seed + 10, asks)
        self._generations = random.Random(seed + 8)
        self._renewals = renewals
        self._answers = random.Random(seed + 9)
        self._waiting: list[tuple[str, str]] = []  # dataset and hash of what waits for an approval
        self._renewed: dict[str, Body] = {}
        self._shared: list[Body] = []  # the policy that has fixed the lifetime of each population
        self._unasked: list[str] = []
        self.now = start
        self.window, self.skew = window, skew
        self._jump = window // 100
        self._known: list[tuple[str, bytes]] = []
        self._due: list[tuple[int, bytes]] = []
        self._names = [f"ds-{i}" for i in range(len(POLICIES) * datasets)]
        self._paused: list[str] = []
        self._pausing = random.Random(seed + 10)
        self._pauses = People(seed + 10)
        self._person_pauses: dict[str, list[Body]] = {}
        self._leads = LeadLoad(seed + 13)
        self._claims = [self._claim(0) for _ in range(300)]
        self._shown = [claim for claim in self._claims if claim["type"] == "ex_post"]

    def steps(self, count: int) -> Iterator[SentInput]:
        """Yield so many inputs, the datasets' openings and their members first."""
        first = [
            self._opening(name, POLICIES[i % len(POLICIES)]) for i, name in enumerate(self._names)
        ]
        for body in list(first):
            if body["policy"].get("access") == "members":
                each = self._people.enrolments()
                first += [{**self._owner("member", body["dataset"]), **more} for more in each]
        for body in first[:count]:
            yield self._send("admin", body)
        yield from self.more(count - len(first))

    def more(self, count: int) -> Iterator[SentInput]:
        """Yield so many inputs more, of any kind."""
        for _ in range(count):
            yield self._step()

    def owners(self) -> SentInput:
        """Return a record of an owner: it moves no floor, and shows the one there is."""
        return self._owners()

    def hear(self, record: bytes) -> None:
        """Take in the decision on an input: reservations are named by it."""
        self._reservations.hear(record)
        if b'"outcome":"pending"' in record:
            named = f"sha256:{hashlib.sha256(record).hexdigest()}"
            self._waiting.append((json.loads(record)["dataset"], named))
        self._ask_load.hear(record)

    def _step_of(self, source: str, fields: Body) -> SentInput:
        """Send a record of a reservation."""
        return self._send(source, {"request_id": id_at(self.now, self.chance), **fields})

    def _step(self) -> SentInput:
        if self._brakes.random() < (0.25 if self._paused else 0.006):
            return self._brake()
        if self._budgets.random() < 0.012:
            return self._budget()
        if self._pausing.random() < (0.05 if any(self._person_pauses.values()) else 0.01):
            return self._person_pause()
        if self._leads.is_next():
            return self._lead()
        if self._renewals and self._generations.random() < self._renewals:
            return self._renew()
        if self._outside.random() < 0.005:
            return self._about_outside()
        if self._waiting and self._answers.random() < 0.03:
            return self._answer()
        if self._ask_load.is_next():
            return self._more()
        if self._limit_load.is_next():
            return self._limit()
        if self._reservations.is_next():
            return self._step_of(*self._reservations.step())
        if self._due and self._due[0][0] <= self.now + self._jump:
            when, value = heapq.heappop(self._due)
            return self._send("requests", value, later=max(0, when - self.now))
        draw = self.chance.random()
        if draw < 0.13:
            return self._again()
        if draw < 0.21:
            return self._at_the_edge()
        if draw < 0.26:
            return self._member()
        if draw < 0.31:
            return self._owners()
        if draw < 0.36:
            return self._bad()
        body = self._request()
        if draw > 0.97:
            self._again_at_its_end(self._text(body), self.now)
        return self._send("requests", body)

    def _send(self, source: str, body: Body | bytes, later: int | None = None) -> SentInput:
        value = body if isinstance(body, bytes) else self._text(body)
        if isinstance(body, dict):
            self._known.append((source, value))
        if later is None:
            later = self.chance.choice([0, 0, 1, 7, 40, 300, -25, self._jump])
        self.now += later
        return SentInput(source, value, later)

    def _text(self, body: Body) -> bytes:
        style = self.chance.random()
        if style < 0.7:
            return json.dumps(body).encode()
        if style < 0.85:
            return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
        if style < 0.95:
            return b"  " + json.dumps(body).encode() + b" \r\n"
        return json.dumps(body, indent=2).encode()

    def _again(self) -> SentInput:
        """Send something again: mostly of late, the same bytes or others."""
        recent = self._known[-60:] if self.chance.random() < 0.7 else self._known
        source, value = self.chance.choice(recent)
        if self.chance.random() < 0.2:
            body = {**json.loads(value)}
            field = "purpose" if source == "requests" else "reason"
            other = {"grant": "sha256:" + "1" * 64} if "grant" in body else {field: "another"}
            return self._send(source, json.dumps({**body, **other}).encode())
        if self.chance.random() < 0.2:
            value = b"\n" + value.strip()
        return self._send(source, value)

    def _at_the_edge(self) -> SentInput:
        """Ask with an id whose time lies at the floor, or as far ahead as it may."""
        off = self.chance.choice([-2000, -1001, -1, 0, 1, 2, 999, 1500, 40_000])
        edge = self.chance.choice([self.now - self.window, self.now + self.skew])
        value = self._text(self._request(at=edge + off))
        self._again_at_its_end(value, edge + off)
        return self._send("requests", value, later=self.chance.choice([0, 0, 1, 2]))

    def _again_at_its_end(self, value: bytes, issued: int) -> None:
        """Plan to send a body again, around issue + window and when its id is due."""
        end = issued + self.window
        for when in (issued - self.skew, end - self.skew, end - 1, end, end + 1):
            if when > self.now:
                heapq.heappush(self._due, (when, value))

    def _request(self, at: int | None = None) -> Body:
        name = self._reservations.suspended() or self.chance.choice(self._names)
        if self.chance.random() < 0.15:  # one with limits
            name = self._limit_load.dataset(self._names)
        continued = self._reservations.continued()
        name = continued.get("dataset", name)
        policy = POLICIES[self._names.index(name) % len(POLICIES)]
        odd = self.chance.random()
        shown = policy.get("filter") in {"ex_post", "split"} and self.chance.random() < 0.5
        claim = self.chance.choice(self._shown if shown else self._claims)
        reserve = self._reservations.reserve()
        session = self._reservations.session(policy.get("filter", "")) if reserve else None
        return {
            "version": 1,
            "type": "request",
            "request_id": id_at(self.now if at is None else at, self.chance),
            "analyst": self.chance.choice(ANALYSTS),
            "dataset": name if odd > 0.02 else "never-opened",
            "claim": session or claim,
            "unit": policy.get("unit", "person") if odd < 0.97 else "other",
            "neighbours": policy.get("neighbours", "add_remove"),
            "purpose": self.chance.choice(["", "weekly", 'é "quoted" ☃']),
            **self._people.via(),
            **reserve,
            **{field: continued[field] for field in ("analyst", "claim") if continued},
        }

    def _owner(self, kind: str, name: str) -> Body:
        return {
            "version": 1,
            "type": kind,
            "request_id": id_at(self.now, self.chance),
            "dataset": name,
            "by": OWNER,
        }

    def _opening(self, name: str, policy: Body) -> Body:
        fields, more = self._people.opened(int(name.rpartition("-")[2]))
        if self._budgets.random() < 0.3:
            fields = {**fields, "budget": self._below(policy)}
        adds_up = "rho" not in policy or policy["filter"] == "zcdp"
        if self._renewals and self._generations.random() < (0.5 if adds_up else 0.02):
            fields = {**fields, "lifetime": self._lifetime(policy)}
        return {**self._owner("open", name), "policy": {**policy, **more}, **fields}

    def _lifetime(self, policy: Body) -> Body:
        """Return a lifetime of a few generations: now and then one that holds none."""
        chance = self._generations
        field, times = ("rho" if "rho" in policy else "epsilon"), chance.choice([2, 3, 3, 4, 6])
        broken = chance.random() < 0.03
        times = Fraction(9, 10) if broken else Fraction(times)
        more = Fraction(policy.get("epsilon_ex_post", "0"))
        amount = (Fraction(policy.get(field, "1")) + more) * times
        delta = {} if chance.random() < 0.03 else {"delta": chance.choice(["1e-4", "6e-6"])}
        return {field: f"{float(amount):.6g}", **delta}

    def _open_in_population(self) -> SentInput:
        """Open a dataset that fixes the lifetime of a population, takes from it, or does not."""
        chance, fixes = self._generations, False
        if not self._shared or chance.random() < 0.2:
            policy, fixes = chance.choice(POLICIES), True
            self._shared.append(policy)
        number = chance.randrange(len(self._shared)) if chance.random() < 0.3 else -1
        number %= len(self._shared)
        policy = self._shared[number] if chance.random() < 0.85 else chance.choice(POLICIES)
        name = f"ds-in-{len(self._names)}"
        policy = {**policy, "population": f"all-{number}"}
        body = {**self._owner("open", name), "policy": policy}
        if fixes or chance.random() < 0.1:
            shared = fixes or chance.random() < 0.5
            body["lifetime"] = {**self._lifetime(policy), **({"shared": True} if shared else {})}
        if chance.random() < 0.05:
            body["by"] = "stranger"
        self._renewed[name] = policy
        self._names.append(name)
        return self._send("admin", body)

    def _renew(self) -> SentInput:
        """Renew a dataset, or let everybody ask of one that was renewed, from a seed of its own."""
        chance = self._generations
        if chance.random() < 0.2:
            return self._open_in_population()
        if self._unasked and chance.random() < 0.7:
            body = {"type": "amend", "dataset": self._unasked.pop(), "access": "anyone"}
        else:
            older = chance.random() < 0.2
            name = chance.choice(self._names if older else self._names[-12:])
            policy = self._policy(name)
            if chance.random() < 0.1:
                policy = self._policy(chance.choice(self._names))
            new = (
                f"next-{len(self._names)}" if chance.random() < 0.9 else chance.choice(self._names)
            )
            body = {"type": "renew", "dataset": name, "renewed_as": new, "policy": policy}
            if chance.random() < 0.2:
                body["budget"] = self._below(policy)
            if chance.random() < 0.1:
                body["follows"] = chance.randrange(1, 60)
            if chance.random() < 0.2:
                body["owners"] = [OWNER, "owner-2"]
            if new not in self._names:
                self._renewed[new] = policy
                self._names.append(new)
                self._unasked.append(new)
        head = {"version": 1, "request_id": id_at(self.now, chance), "by": OWNER}
        self._known.append(("admin", value := json.dumps({**head, **body}).encode()))
        return self._send("admin", value, later=0)

    def _policy(self, name: str) -> Body:
        """Return the policy of a dataset, as it is opened."""
        number = self._names.index(name)
        more = self._people.opened(int(name.rpartition("-")[2]))[1]
        return self._renewed.get(name) or {**POLICIES[number % len(POLICIES)], **more}

    def _below(self, policy: Body) -> Body:
        """Return a budget in force below a policy's: now and then one that is not."""
        field = "rho" if "rho" in policy else "epsilon"
        part = self._budgets.choice([Fraction(1, 3), Fraction(1, 2), Fraction(9, 10), 1])
        part = Fraction(2) if self._budgets.random() < 0.1 else part
        return {field: f"{float(Fraction(policy.get(field, '1')) * part):.6g}"}

    def _budget(self) -> SentInput:
        """Raise or lower the budget in force of a dataset, from a seed of its own."""
        chance = self._budgets
        name = chance.choice(self._names)
        budget = self._below(POLICIES[self._names.index(name) % len(POLICIES)])
        body = {
            "version": 1,
            "type": "budget",
            "request_id": id_at(self.now, chance),
            "dataset": name,
            "by": OWNER,
            "budget": budget,
        }
        self._known.append(("admin", value := json.dumps(body).encode()))
        return self._send("admin", value, later=0)

    def _about_outside(self) -> SentInput:
        """Record a release made elsewhere, or remark on a decision, from a seed of its own."""
        chance = self._outside
        name = chance.choice(self._names)
        if chance.random() < 0.5:
            name = self._limit_load.dataset(self._names)
        if chance.random() < 0.2:
            fields: Body = {"decision": chance.randrange(-1, 400), "remark": "it never ran"}
            kind = "remark"
        else:
            small = {"type": "pure", "epsilon": f"{chance.randrange(1, 200)}e-4"}
            claim = small if chance.random() < 0.8 else chance.choice(self._claims)
            ahead = chance.choice([0, 1, 10**6]) if chance.random() < 0.1 else None
            off = -chance.randrange(10**9) if ahead is None else ahead
            times = at_text(self.now + off)
            fields = {"claim": claim, "released_at": times, "evidence": "a published table"}
            if chance.random() < 0.7:
                fields["team"] = chance.choice(TEAMS)
            if chance.random() < 0.2:
                fields["evidence_hash"] = "sha256:" + "2" * 64
            if chance.random() < 0.1:
                fields["follows"] = chance.randrange(1, 60)
            kind = "record"
        body = {
            "version": 1,
            "type": kind,
            "request_id": id_at(self.now, chance),
            "dataset": name,
            "by": OWNER if chance.random() < 0.95 else "eve",
            **fields,
        }
        self._known.append(("admin", value := json.dumps(body).encode()))
        return self._send("admin", value, later=0)

    def _answer(self) -> SentInput:
        """Approve or deny a request that waits, or did, from a seed of its own."""
        chance = self._answers
        name, waiting = chance.choice(self._waiting[-20:])
        if chance.random() < 0.05:
            waiting = "sha256:" + "3" * 64
        body = {
            "version": 1,
            "type": chance.choice(["approve", "approve", "deny"]),
            "request_id": id_at(self.now, chance),
            "dataset": name,
            "by": OWNER if chance.random() < 0.9 else chance.choice(ANALYSTS),
            "pending": waiting,
        }
        if chance.random() < 0.3:
            body["reason"] = "seen"
        self._known.append(("admin", value := json.dumps(body).encode()))
        return self._send("admin", value, later=0)

    def _more(self) -> SentInput:
        """Ask for more, or answer an ask, from a seed of its own."""
        head = {"version": 1, "request_id": id_at(self.now, self._outside)}
        value = json.dumps({**head, **self._ask_load.step(self._names)}).encode()
        self._known.append(("admin", value))
        return self._send("admin", value, later=0)

    def _member(self) -> SentInput:
        name = self.chance.choice([*self._names[:3], self.chance.choice(self._names)])
        body = {**self._owner("member", name), **self._people.member(self.now)}
        return self._send("admin", body)

    def _limit(self) -> SentInput:
        name = self._limit_load.dataset(self._names)
        draw = self.chance.random()
        if draw < 0.05:  # an invalid body is not sent again
            body = {**self._owner("limit", name), **self._limit_load.broken()}
            return self._send("admin", json.dumps(body).encode())
        if draw < 0.2:
            fields = self._limit_load.member()
            return self._send("admin", {**self._owner("member", name), **fields})
        return self._send(
            "admin", {**self._owner("limit", name), **self._limit_load.limit(self.now)}
        )

    def _owners(self) -> SentInput:
        name = self.chance.choice(self._names)
        policy = POLICIES[self._names.index(name) % len(POLICIES)]
        draw = self.chance.random()
        if draw < 0.1:
            return self._send("admin", self._opening(name, policy))
        if draw < 0.3:  # opened, lowered and closed again, with nothing granted
            self._names.append(f"late-{len(self._names)}")
            chosen = POLICIES[(len(self._names) - 1) % len(POLICIES)]
            return self._send("admin", self._opening(self._names[-1], chosen))
        if draw < 0.33:
            return self._send("admin", self._owner("close", name))
        body = {**self._owner("amend", name), **self._people.by()}
        if self.chance.random() < 0.3:
            body["follows"] = self.chance.randrange(1, 60)
        if draw < 0.6:
            name = self.chance.choice(self._names[-3:])
            policy = POLICIES[self._names.index(name) % len(POLICIES)]
            lowered = dict(self._opening(name, policy)["policy"])
            field = "rho" if "rho" in policy else "epsilon"
            lowered[field] = self.chance.choice(["0.04", "0.25", "3"])
            body["policy"] = lowered
            body["dataset"] = name
        else:
            change = self.chance.choice(
                [
                    {"alert_at": ["0.1", "0.5", "0.99"]},
                    {"alert_at": ["0.05"], "open_per_holder": 0},
                    {"horizon": "P400D", "open_per_holder": 1, "approve_above": "0.02"},
                    {"most_per_request": "0.4"},
                    {"most_per_request": "1", "approve_above": "1", "approve_within": "P30D"},
                    {"access": "members"},
                    {"access": "anyone", "visibility": "own"},
                    {"alert_at": None, "horizon": None},
                ]
            )
            body.update(change)
        return self._send("admin", body)

    def _brake(self) -> SentInput:
        """Pause a dataset for a few records, or resume one, from a seed of its own."""
        chance = self._brakes
        name = chance.choice(self._paused or self._names)
        kind = "resume" if self._paused else "pause"
        if kind == "pause":
            self._paused.append(name)
        else:
            self._paused.remove(name)
        if chance.random() < 0.2:  # once more, or the other one without need
            kind = chance.choice(["pause", "resume"])
        more = chance.choice([{}, {}, {"as": "administrator", "by": "admin"}])
        body = {
            "version": 1,
            "type": kind,
            "request_id": id_at(self.now, chance),
            "dataset": name,
            "by": OWNER,
            **more,
        }
        self._known.append(("admin", value := json.dumps(body).encode()))
        return self._send("admin", value, later=0)

    def _person_pause(self) -> SentInput:
        """Pause a person or a team of a dataset, or end such a pause, from seeds of its own."""
        chance, known = self._pausing, [each for each in self._person_pauses.items() if each[1]]
        name = chance.choice([name for name, _ in known] or self._names)
        paused = self._person_pauses.setdefault(name, [])
        is_sound = chance.random() < 0.9
        fields = self._pauses.pause(paused) if is_sound else self._pauses.broken_pause()
        target = {n: fields[n] for n in ("member", "team") if n in fields}
        if is_sound and fields["type"] == "pause_member" and target not in paused:
            paused.append(target)
        elif is_sound and fields["type"] == "resume_member" and target in paused:
            paused.remove(target)
        head = {"version": 1, "request_id": id_at(self.now, chance), "dataset": name, "by": OWNER}
        return self._send("admin", json.dumps({**head, **fields}).encode(), later=0)

    def _lead(self) -> SentInput:
        """Send a record of a lead, or of an owner about one, from a seed of its own."""
        head = {"version": 1, "request_id": id_at(self.now, self._leads.chance)}
        value = json.dumps({**head, **self._leads.record(self._names, self.now)}).encode()
        return self._send("admin", value, later=0)

    def _bad(self) -> SentInput:
        draw = self.chance.randrange(15)
        body = self._request()
        if draw > 11:
            source, fields = self._reservations.broken(body)
            return self._send(
                source, json.dumps({"request_id": body["request_id"], **fields}).encode()
            )
        if draw == 0:
            return self._send("requests", self.chance.choice([b"{", b"\xff", b"", b"[1]", b"null"]))
        if draw == 1:
            return self._send("requests", self._text(body)[:-1] + b',"version":1}')
        if draw == 2:
            body["purpose"] = self.chance.choice(["x" * 201, "x" * 70_000, "\x1b[2J", "\u202e"])
            return self._send("requests", json.dumps(body).encode())
        if draw == 9:
            body = {**self._owner("member", "ds-1"), **self._people.broken_member(self.now)}
            return self._send("admin", json.dumps(body).encode())
        if draw == 10:
            fields, policy = self._people.broken_opening()
            body = {**self._opening("broken-1", {**POLICIES[0], **policy}), **fields}
            body["policy"] |= policy
            return self._send("admin", json.dumps(body).encode())
        if draw == 3:
            return self._send("admin", self._opening("broken-1", self.chance.choice(BROKEN)))
        if draw == 4:
            del body[self.chance.choice(["analyst", "claim", "unit", "version", "dataset"])]
        elif draw == 5:
            body["claim"] = self.chance.choice(
                [
                    {"type": "pure", "epsilon": 0.1},
                    {"type": "pure", "epsilon": "-1"},
                    {"type": "pure", "epsilon": "1e4"},
                    {"type": "gaussian", "sigma": "0", "sensitivity": "1"},
                    {"type": "laplace", "scale": "1e-9", "sensitivity": "1"},
                    {"type": "brownian", "variance": "4", "sensitivity": "1", "previous": "4"},
                    {"type": "repeat", "claim": {"type": "pure", "epsilon": "0.1"}, "times": 0},
                    {"type": "all_of", "claims": []},
                    {"type": "unknown"},
                    {"type": "approximate", "epsilon": "0.1", "delta": "1"},
                ]
            )
        elif draw == 6:
            body["dataset"] = self.chance.choice(["a/b", "", "x" * 101, "a b"])
        elif draw == 7:
            body["request_id"] = "00000000-0000-4000-8000-000000000000"
        elif draw == 11:
            body |= self._people.broken_via()
        else:
            body["extra"] = 1
        return self._send("requests", json.dumps(body).encode())

    def _decimal(self, least: int, most: int) -> str:
        digits = self.chance.randrange(1, 1000)
        return f"{digits}e{self.chance.randrange(least, most) - 2}"

    def _claim(self, nested: int) -> Body:
        claim = self._plain_claim(nested)
        return {"type": "interactive", "claim": claim} if self._wraps.random() < 0.1 else claim

    def _plain_claim(self, nested: int) -> Body:
        kind = self.chance.randrange(17 if nested < 2 else 14)
        chance, decimal = self.chance, self._decimal
        epsilon, delta = decimal(-4, -1), chance.choice(["0", "1e-9", "2.5e-8"])
        noise, query = str(chance.choice([2, 5, 10, 20, 77])), chance.choice(["0.5", "1", "3"])
        if kind < 3:
            return {"type": "pure", "epsilon": epsilon}
        if kind < 6:
            name = ("approximate", "probabilistic", "randomized_response")[kind - 3]
            return {"type": name, "epsilon": epsilon, "delta": delta}
        if kind == 6:
            return {"type": "zcdp", "rho": decimal(-6, -2)}
        if kind == 7:
            return {"type": "approximate_zcdp", "rho": decimal(-6, -2), "delta": delta}
        if kind == 8:
            return {"type": "gdp", "mu": epsilon}
        if kind == 9:
            return {"type": "bounded_range", "eta": epsilon}
        if kind == 10:
            return {"type": "laplace", "scale": noise, "sensitivity": query}
        if kind == 11:
            sampled = {"type": "subsampled_gaussian", "rate": chance.choice(["0.01", "0.3"])}
            plain = {"type": "gaussian"}
            fields = {"sigma": noise, "sensitivity": query}
            return {**(sampled if chance.random() < 0.3 else plain), **fields}
        if kind == 12:
            body: Body = {"type": "brownian", "variance": "900", "sensitivity": query}
            return {**body, "previous": "1600"} if chance.random() < 0.5 else body
        if kind == 13:
            return {"type": "ex_post", "epsilon": epsilon, "delta": delta}
        if kind == 14:
            return {"type": "all_of", "claims": [self._claim(nested + 1) for _ in range(3)]}
        return {"type": "repeat", "claim": self._claim(nested + 1), "times": chance.choice([1, 3])}
