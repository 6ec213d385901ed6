"""Reservations in plain fractions: what each record of a ledger is decided to be.

It shares no code with the product. Budgets, limits and rules of filters are those of the judge of
`tests/faults`; the rest is `rules.md` on reservations, read once more.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from tests.accountant.partition.limits_dataset import Body, Dataset, FitsEverywhere
from tests.accountant.partition.limits_model import Model
from tests.faults.oracle.amounts import INFINITE, UNIT, Range, fraction, kept_up, rounded_up
from tests.faults.oracle.disagreement import agree
from tests.faults.oracle.division import Division
from tests.faults.oracle.expected import Fields
from tests.faults.oracle.levels import Levels, as_json
from tests.faults.oracle.limits import Clock, Limit, Use
from tests.faults.oracle.meter import Amounts, Meter, amount_fields, budget_of, down, read, texts
from tests.faults.oracle.worth import adds, atoms, exact

MOST_DROPPED: Final = 16
_NEARLY: Final = Fraction(19, 20)
MOST_SETTLED: Final = 1_000
_OF_SESSIONS: Final = {"first", "least", "sampler", "continues"}
_MS: Final = {"D": 86_400_000, "H": 3_600_000, "M": 60_000}
_WORSE: Final = ("", "explained", "if_bounded", "void")
_LOWERED_BY_EX_POST: Final = {
    "basic": {"epsilon"},
    "ex_post": {"ex_post_only"},
    "split": {"ex_post_epsilon"},
}
"""The sums in which a filter charges an ex-post claim by what was shown."""


class OwnMeter(Meter):
    """A budget whose prices are single numbers, worked out here."""

    def price(self, claim: str) -> dict[str, Range]:
        found = super().price(claim)
        return {name: _single(claim, name, span) for name, span in found.items()}


@lru_cache(maxsize=65_536)
def _single(claim: str, name: str, span: Range) -> Range:
    """Return a price without its range: a cost without an end has 20 digits, rounded up."""
    if span[0] == span[1]:
        return span
    total = Fraction(0)
    for atom, times in atoms(json.loads(claim)):
        low, high = adds(atom, name)
        total += times * (low if low == high else kept_up(fraction(exact(atom, name)) * UNIT))
    return total, total


def length_of(until: str) -> int:
    """Return the milliseconds of `P1D`, `PT12H` or `PT30M`."""
    return int(until.strip("PTDHM")) * _MS[until[-1]]


@dataclass
class Charge:
    """What one limit was charged by a grant.

    Attributes:
        place: scope and name of the limit.
        analyst: whose use it is, under a default.
        counted, paced, used: amounts, None where nothing of the kind was charged.
        since, begin, resets, shared: which count, period and share.
        policy: of the limit's own filter.
    """

    place: tuple[str, str]
    analyst: str
    counted: Amounts | None = None
    since: int = 0
    policy: Body = field(default_factory=dict)
    paced: Amounts | None = None
    begin: int = 0
    resets: int = 0
    used: Amounts | None = None
    shared: int = 0


@dataclass
class Reservation:
    """An open reservation, or a settled session that a claim may continue.

    Attributes:
        level: the variance at which a session settled.
    """

    grant: str
    sequence: int
    analyst: str
    via: str | None
    claim: Body
    reserved_at: int
    deadline: int
    charged: Amounts
    charges: list[Charge]
    stage: str = "reserved"
    level: str = ""

    @property
    def final_at(self) -> float:
        """When neither begin nor void nor settle is possible any more."""
        if self.stage == "broken":
            return INFINITE
        if self.stage in {"begun", "settled"}:
            return self.deadline
        return self.deadline + (self.deadline - self.reserved_at)


class ReservingDataset(Dataset):
    """A dataset with reservations.

    Attributes:
        open, settled: its open reservations, and its settled sessions, by grant.
        crossed: how many thresholds it has reached; it never falls.
        latest: the latest time of its decisions since it has had open reservations.
        guarantee: what became of it.
        asks_fits: whether the next refusal's offer is worked out, which is slow.
    """

    def __init__(self, policy: Body, budget: dict[str, str], owner: str) -> None:
        super().__init__(policy, budget, owner)
        self.open: dict[str, Reservation] = {}
        self.settled: dict[str, Reservation] = {}
        self.gone: list[str] = []
        self.crossed = self.mechanisms = self.latest = 0
        self.guarantee = ""
        self.asks_fits = True

    def take_policy(self, policy: Body, budget: dict[str, str]) -> None:
        self.policy = policy
        agree("budget", budget, budget_of(json.dumps(policy)))
        self.meter = OwnMeter(policy, read(budget))
        self.spent = self.meter.nothing()
        self.division = Division(self.meter)

    # Time

    def time(self, at: int) -> int:
        """Return the time of deadlines: what had lapsed before a clock reset stays lapsed."""
        return max(at, self.latest) if self.open or self.settled else at

    def begin_decision(self, at: int) -> None:
        """Drop up to 16 rows that are final, as each decision of the dataset does first."""
        self.latest = now = self.time(at)
        rows = (*self.open.values(), *self.settled.values())
        due = [each for each in rows if each.final_at <= now]
        for each in sorted(due, key=lambda each: (each.deadline, each.sequence))[:MOST_DROPPED]:
            if each.stage == "settled":
                del self.settled[each.grant]
            else:
                self._drop(each)

    def _drop(self, reservation: Reservation) -> None:
        del self.open[reservation.grant]
        self.gone.append(reservation.grant)

    def _may_continue(self, body: Body, at: int) -> bool:
        """Tell whether each session that a claim names settled where the claim begins, or below."""
        for part in parts(body["claim"]):
            if "continues" not in part:
                continue
            found = self.settled.get(part["continues"])
            if found is None or found.analyst != body["analyst"] or found.deadline <= self.time(at):
                return False
            if Fraction(part["previous"]) < Fraction(found.level):
                return False
            if Fraction(part["sensitivity"]) > Fraction(found.claim["sensitivity"]):
                return False
        return True

    @property
    def suspended(self) -> bool:
        return any(each.stage == "broken" for each in self.open.values())

    @property
    def held(self) -> Amounts:
        """What the open reservations hold of each sum."""
        return {
            name: sum((each.charged[name] for each in self.open.values()), Fraction(0))
            for name in self.spent
        }

    # Requests

    def may_ask(self, body: Body, at: int) -> bool:
        via = body.get("via")
        if via is not None and "engine" not in self.member(via, at)["roles"]:
            return False
        if self.policy.get("access") != "members":
            return True
        return "analyst" in self.member(body["analyst"], at)["roles"]

    def ask(self, body: Body, clock: Clock, grant: str = "") -> Fields:
        if not self.may_ask(body, clock.at):
            return {"reason": "not_permitted"}
        if not self._may_continue(body, clock.at):
            return {"reason": "not_settled"}
        reserves = "reserve" in body
        for word, is_so in (
            *(("closed", self.closed), ("suspended", self.suspended), ("paused", self.paused)),
            ("halted", self.halted),
            ("too_many_of_holder", reserves and self._is_full(body)),
        ):
            if is_so:
                return {"reason": word}
        if (body["unit"], body["neighbours"]) != (self.policy["unit"], self.policy["neighbours"]):
            return {"reason": "unit_mismatch"}
        analyst = body["analyst"]
        team = self.member(analyst, clock.at).get("team")
        levels = Levels(self.division, self.spent, analyst, team, clock)
        before, places = dict(self.spent), self._places(analyst, team)
        uses = {place: self._use(place, analyst, clock) for place in places}
        found = self._ask_levels(body["claim"], levels)
        if "reason" in found:
            return found
        self.mechanisms += sum(times for _, times in atoms(body["claim"]))
        found["crossed"] = self._cross()
        if not reserves:
            return found
        now = self.time(clock.at)
        charges = [
            _charge(place, analyst, self._limit_at(place), was, self._use(place, analyst, clock))
            if place[0] != "team" or place[1] == team
            else self._charge_of_share(place, analyst, was)
            for place, was in uses.items()
        ]
        self.open[grant] = Reservation(
            grant,
            self.sequence + 1,
            analyst,
            body.get("via"),
            body["claim"],
            now,
            now + length_of(body["reserve"]["until"]),
            {name: self.spent[name] - before[name] for name in before},
            [each for each in charges if (each.counted, each.paced, each.used) != (None,) * 3],
        )
        return {"outcome": "reserved", **found}

    def _is_full(self, body: Body) -> bool:
        """Tell whether the analyst or the engine has as many open as one holder may have."""
        most = self.policy.get("open_per_holder")
        if most is None:
            return False
        for name in {body["analyst"], body.get("via", body["analyst"])}:
            if sum(name in {each.analyst, each.via} for each in self.open.values()) >= most:
                return True
        return False

    def _ask_levels(self, asked: Body, levels: Levels) -> Fields:
        claim = as_json(asked)
        if not self.meter.accepts(claim):
            return {"reason": "claim_not_accepted"}
        fits: Any = "?"
        if self.asks_fits and not _has_session_within(asked):
            plain = {n: v for n, v in asked.items() if n not in _OF_SESSIONS}
            if asked["type"] == "ex_post":
                plain.pop("sensitivity", None)
            fits = FitsEverywhere(
                self.policy, self.meter.whole, self.spent, plain,
                lambda like: self._admits(like, levels),
            )  # fmt: skip
        if self.is_above_cap(claim):
            return {"reason": "above_cap", "fits": fits}
        after = self.meter.charged(self.meter.whole, self.spent, claim)
        if after is None:
            crossed = self._exhaust()
            offer = {} if self.halted else {"fits": fits}
            return {"reason": "exhausted", **levels.left_at(), **offer, "crossed": crossed}
        reason, more = levels.refusal(claim)
        if reason is not None:
            return {"reason": reason, **more, **({"fits": fits} if reason == "exhausted" else {})}
        reported = levels.charge(claim, [], self.policy["alert_at"], self.sequence + 1)
        self.spent, self.granted = after, True
        return reported

    def _exhaust(self) -> list[str]:
        halts = bool(self.policy.get("halt_on_refusal"))
        self.halted = self.halted or halts
        part = self.meter.part(self.meter.whole, self.spent)
        alerts, before = self.policy["alert_at"], self.crossed
        if halts or part >= _NEARLY:
            self.crossed = len(alerts)
        return alerts[before : self.crossed]

    def _cross(self) -> list[str]:
        """Return the thresholds that are reached now for the first time."""
        part = self.meter.part(self.meter.whole, self.spent)
        alerts, before = self.policy["alert_at"], self.crossed
        self.crossed = max(before, sum(Fraction(ratio) <= part for ratio in alerts))
        return alerts[before : self.crossed]

    # Limits

    def _places(self, analyst: str, team: str | None) -> list[tuple[str, str]]:
        """Return which limits a grant may be charged to, in the order of decisions."""
        places = [("dataset", ""), ("team", team or "")]
        own = self.division.share_of("analyst", analyst)
        booked = None if own is None else own.booked
        if booked != team and self.division.share_of("team", booked) is not None:
            places.append(("team", booked or ""))
        places += [("analyst", analyst), ("each", team or "")]
        return [place for place in places if place in self.division.limits]

    def _limit_at(self, place: tuple[str, str]) -> Limit:
        return self.division.limits[place]

    def _use(self, place: tuple[str, str], analyst: str, clock: Clock) -> Fields:
        """Return what counts at a limit now, and as which count."""
        limit = self._limit_at(place)
        use = limit.use_of(analyst)
        found: Fields = {"marks": (use.counted[0], use.paced, use.resets, use.used[0])}
        if limit.meter is not None:
            found["counted"] = limit.counted(use)
        if limit.pace is not None:
            found["paced"] = limit.paced(use, self.meter, clock)
        if limit.share is not None:
            found["used"] = limit.used()
        return found

    def _charge_of_share(self, place: tuple[str, str], analyst: str, before: Fields) -> Charge:
        """Return what a former team was charged, in whose share that of an analyst lies."""
        limit = self._limit_at(place)
        used = _less(limit.used(), before["used"])
        return Charge(place, analyst, used=used, shared=limit.use.used[0])

    # Owners

    def _lower(self, policy: Body, said: Fields) -> Fields:
        stays = {"access", "open_per_holder"}  # a lower budget leaves them as they are
        kept = {name: each for name, each in self.policy.items() if name in stays}
        found = super()._lower(policy, said)
        self.policy |= kept
        return found

    def govern(self, body: Body, clock: Clock, said: Fields) -> Fields:
        if body["type"] != "resolve":
            return super().govern(body, clock, said)
        if self.owners and body["by"] not in self.owners:
            return {"reason": "not_permitted"}
        if body.get("follows") not in (None, self.sequence):
            return {"reason": "out_of_date"}
        reservation = self.open.get(body["grant"])
        if reservation is None:
            return {"reason": "not_open"}
        if reservation.stage != "broken":
            return {"reason": "not_broken"}
        became, crossed = "explained", list[str]()
        if "claim" in body:
            after = self.meter.charged(self.meter.whole, self.spent, as_json(body["claim"]))
            after = None if after is None or self.promises_too_much(after) else after
            became = "void" if after is None else "if_bounded"
            if after is not None:
                self.spent = after
                self.mechanisms += sum(times for _, times in atoms(body["claim"]))
                crossed = self._cross()
        self.guarantee = max(self.guarantee, became, key=_WORSE.index)
        self._drop(reservation)
        return {"outcome": "resolved", "crossed": crossed}

    def promises_too_much(self, spent: Amounts) -> bool:
        """Tell whether shares withhold more than is left after some spending."""
        withheld = self.division.all_withheld()
        return any(spent[name] + withheld[name] > most for name, most in self.meter.whole.items())

    # Steps

    def step(self, body: Body, clock: Clock) -> Fields:
        """Decide a `begin`, `settle` or `void`."""
        kind, reservation = body["type"], self.open.get(body["grant"])
        reason = self._step_refusal(body, reservation, clock.at)
        if reason is not None or reservation is None:
            if reason == "beyond_maximum" and reservation is not None:
                breaks = reservation.stage == "begun" and self.may_ask(body, clock.at)
                if breaks:
                    reservation.stage = "broken"
                return {"reason": reason, "breaks": breaks}
            return {"reason": reason}
        if kind == "begin":
            reservation.stage = "begun"
            return {"outcome": "begun"}
        self._drop(reservation)
        if kind == "void":
            found = self._give_back(reservation, clock, lambda _, charged: dict(charged))
            return {"outcome": "voided", **found}
        if reservation.claim["type"] == "brownian" and len(self.settled) < MOST_SETTLED:
            reservation.stage = "settled"
            reservation.level = body.get("shown", reservation.claim["variance"])
            self.settled[reservation.grant] = reservation
        if "shown" not in body:
            return {"outcome": "settled"}
        claim, shown = reservation.claim, body["shown"]
        back = self._give_back(
            reservation, clock, lambda policy, charged: unused(policy, claim, shown, charged)
        )
        return {"outcome": "settled", **back}

    def _step_refusal(self, body: Body, reservation: Reservation | None, at: int) -> str | None:
        kind, now = body["type"], self.time(at)
        owner = kind == "void" and "via" not in body
        owner = owner and "owner" in self.member(body["analyst"], at)["roles"]
        if reservation is None:
            return "not_open" if owner or self.may_ask(body, at) else "not_permitted"
        holds = body["analyst"] == reservation.analyst
        holds = holds and body.get("via") in (None, reservation.via)
        if not owner and not (holds and (kind == "settle" or self.may_ask(body, at))):
            return "not_permitted"
        if kind == "settle":
            return _settle_refusal(body, reservation, now)
        if reservation.stage != "reserved":
            return "already_begun"
        if kind == "void":
            return "lapsed" if reservation.final_at <= now else None
        if reservation.deadline <= now:
            return "lapsed"
        states = ("closed", self.closed), ("suspended", self.suspended), ("paused", self.paused)
        return next((word for word, is_so in states if is_so), None)

    def _give_back(
        self,
        reservation: Reservation,
        clock: Clock,
        returned: Callable[[Body, Amounts], Amounts],
    ) -> Fields:
        """Return an amount to the rows that were charged; return what the decision says of it."""
        back = returned(self.policy, reservation.charged)
        self.spent = {name: self.spent[name] - back[name] for name in self.spent}
        moved: list[tuple[Charge, Limit, Use, set[str]]] = []
        for charge in reservation.charges:
            limit = self._limit_at(charge.place)
            use = limit.use_of(charge.analyst)
            parts = set()
            counts = use.counted[0] == charge.since == limit.counted_since
            if charge.counted is not None and counts:
                amounts = returned(charge.policy, charge.counted)
                use.counted = charge.since, _less(use.counted[1], amounts)
                parts |= {"totals"} if any(amounts.values()) else set()
            if charge.paced is not None and use.paced is not None and _same(charge, limit, clock):
                amounts = returned(self.policy, charge.paced)
                use.paced = charge.begin, _less(use.paced[1], amounts)
                parts |= {"paced"} if any(amounts.values()) else set()
            moved.append((charge, limit, use, parts))
        everybodys = self._give_back_shares(moved, returned)
        entries = []
        for _, limit, use, parts in moved:
            if parts:
                use.sequence = self.sequence + 1
                entries.append(_entry(limit, use, parts))
        return {"everybodys": everybodys, **({"levels": entries} if entries else {})}

    def _give_back_shares(
        self,
        moved: list[tuple[Charge, Limit, Use, set[str]]],
        returned: Callable[[Body, Amounts], Amounts],
    ) -> bool:
        """Lower the use of shares, all of them or none: the rest must keep every promise.

        Returns: whether the refund is everybody's.
        """
        before, lowered = [], list[set[str]]()
        for charge, limit, use, parts in moved:
            own = charge.used is not None and use.used[0] == charge.shared
            if own and limit.share is not None and charge.shared == limit.shared_since:
                amounts = returned(self.policy, charge.used or {})
                if any(amounts.values()):
                    before.append((use, use.used))
                    lowered.append(parts)
                    use.used = charge.shared, _less(use.used[1], amounts)
        if self.promises_too_much(self.spent):
            for use, was in before:
                use.used = was
            return bool(before)
        for parts in lowered:
            parts.add("used")
        return False

    # What decisions show

    def standing(self) -> Fields:
        """Return what each decision shows: totals, what is left, and open reservations."""
        found: Fields = {
            "totals": {"mechanisms": self.mechanisms, **texts(self.spent)},
            "left": down(self.meter.left(self.meter.whole, self.spent)),
        }
        if self.open or self.settled:
            over = rounded_up(self.held)
            broken = sum(each.stage == "broken" for each in self.open.values())
            found["held"] = {
                "count": len(self.open),
                "totals": texts(self.held),
                **({"rounded_up": over} if over else {}),
                **({"broken": broken} if broken else {}),
                **({"settled": len(self.settled)} if self.settled else {}),
            }
        stated = "void" if self.suspended else self.guarantee
        return found | ({"guarantee": stated} if stated else {})


def _settle_refusal(body: Body, reservation: Reservation, now: int) -> str | None:
    lapsed = reservation.deadline <= now
    if reservation.stage == "reserved":
        return "lapsed" if lapsed else "not_begun"
    if reservation.stage == "broken":
        return "beyond_maximum"
    if lapsed:
        return "lapsed"
    if "shown" not in body:
        return None
    claim, shown = reservation.claim, Fraction(body["shown"])
    if "first" not in claim:
        return "settles_in_full"
    least = claim["least"] if claim["type"] == "ex_post" else claim["variance"]
    if shown < Fraction(least):
        return "beyond_maximum"
    return "above_first" if shown > Fraction(claim["first"]) else None


def unused(policy: Body, claim: Body, shown: str, charged: Amounts) -> Amounts:
    """Return what a session does not cost that ended at a level, by the rule of a filter."""
    last = Fraction(shown)
    found = dict.fromkeys(charged, Fraction(0))
    if claim["type"] == "ex_post":
        rest = Fraction(claim["epsilon"]) - Fraction(claim["sensitivity"]) / last
        for name in _LOWERED_BY_EX_POST.get(policy["filter"], ()):
            found[name] = rest * UNIT
    else:
        precision = 1 / Fraction(claim["variance"]) - 1 / last
        rho = Fraction(claim["sensitivity"]) ** 2 / 2 * precision
        for name in charged:
            if name in {"rho", "apart_rho"}:
                found[name] = rho * UNIT
            elif name in {"intrinsic_time", "mu_squared"}:
                found[name] = 2 * rho * UNIT
            elif name.startswith("renyi_"):
                found[name] = Fraction(name.removeprefix("renyi_")) * rho * UNIT
    return {name: min(each, charged[name]) for name, each in found.items()}


def parts(claim: Body) -> Iterator[Body]:
    """Yield each single mechanism of a claim, as the request has it."""
    within = [*claim.get("claims", []), *filter(None, [claim.get("claim")])]
    for part in within:
        yield from parts(part)
    if not within:
        yield claim


def _has_session_within(claim: Body) -> bool:
    """Tell whether a batch has a session, whose fields the judge does not read in an offer."""
    within = claim.keys() & {"claim", "claims"}
    return bool(within) and any(_OF_SESSIONS & part.keys() for part in parts(claim))


def _charge(
    place: tuple[str, str], analyst: str, limit: Limit, before: Fields, after: Fields
) -> Charge:
    """Return what a limit was charged, by how its use has changed."""
    found = Charge(place, analyst)
    if before["marks"] == after["marks"] and before == after:
        return found
    use = limit.use_of(analyst)
    if "counted" in after and limit.meter is not None:
        found.counted = _less(after["counted"], before["counted"])
        found.since, found.policy = use.counted[0], limit.meter.policy
    if "paced" in after:
        (found.begin, now), (_, was) = after["paced"], before["paced"]
        found.paced, found.resets = _less(now, was), use.resets
    if "used" in after:
        found.used, found.shared = _less(after["used"], before["used"]), use.used[0]
    return found


def _same(charge: Charge, limit: Limit, clock: Clock) -> bool:
    """Tell whether the period that was charged is the one whose use is counted."""
    use = limit.use_of(charge.analyst)
    if use.paced is None or use.paced[0] != charge.begin:
        return False
    begins = limit.periods.around(charge.begin)[0] == charge.begin  # not of another length
    return begins and use.resets == charge.resets == clock.resets


def _less(amounts: Amounts, less: Amounts) -> Amounts:
    return {name: amounts[name] - less[name] for name in amounts}


def _entry(limit: Limit, use: Use, parts: set[str]) -> Fields:
    entry: Fields = {**limit.head, "version": limit.version}
    if "totals" in parts:
        entry |= amount_fields("totals", use.counted[1])
    if "paced" in parts and use.paced is not None:
        begin, amounts = use.paced
        entry |= {"window": limit.periods.number(begin), **amount_fields("paced", amounts)}
    if "used" in parts:
        entry |= amount_fields("used", use.used[1])
    return entry


class ReservingModel(Model):
    """A partition with reservations.

    Attributes:
        grant: the hash of the decision that is being predicted.
        asks_fits: as of `ReservingDataset`.
    """

    grant = ""
    asks_fits = True

    def _new(self, body: Body, said: Fields) -> Fields:
        name, kind = body["dataset"], body["type"]
        dataset = self.datasets.get(name)
        if dataset is None and kind == "open":
            self._before.setdefault(name, None)
            dataset = ReservingDataset(body["policy"], said["budget"], body["by"])
            self.datasets[name] = dataset
            dataset.sequence, dataset.latest = 1, self.clock.at
            return {"outcome": "opened", "sequence": 1, **dataset.standing()}
        if dataset is None:
            return {"reason": "unknown_dataset"}
        assert isinstance(dataset, ReservingDataset)
        self._keep(name)
        dataset = self.datasets[name]
        assert isinstance(dataset, ReservingDataset)
        dataset.asks_fits = self.asks_fits
        dataset.begin_decision(self.clock.at)
        if kind == "request":
            found = dataset.ask(body, self.clock, self.grant)
        elif kind in {"begin", "settle", "void"}:
            found = dataset.step(body, self.clock)
        else:
            found = dataset.govern(body, self.clock, said)
        dataset.sequence += 1
        return {**found, "sequence": dataset.sequence, **dataset.standing()}

    def _keep(self, name: str) -> None:
        if name not in self._before:
            self._before[name] = copy.deepcopy(self.datasets[name])

    def of(self, name: str) -> ReservingDataset:
        found = self.datasets[name]
        assert isinstance(found, ReservingDataset)
        return found
