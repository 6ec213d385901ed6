"""One dataset by the documents: its decisions and its remaining budget."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from tests.faults.oracle import filters, halves, odometers, residue
from tests.faults.oracle.amounts import (
    INFINITE,
    Range,
    as_text,
    rounded_up,
    units,
    whole_down,
    whole_up,
)
from tests.faults.oracle.approvals import Approvals, needs_approval, wait
from tests.faults.oracle.asks import Asks
from tests.faults.oracle.claims import mechanisms, refinements
from tests.faults.oracle.costs import exact, is_priced, plus, taken
from tests.faults.oracle.disagreement import Disagreement, agree
from tests.faults.oracle.division import Division
from tests.faults.oracle.expected import AmountRanges, Fields, Readings
from tests.faults.oracle.fits import Fits
from tests.faults.oracle.levels import Levels, as_json
from tests.faults.oracle.limits import Clock
from tests.faults.oracle.members import Members
from tests.faults.oracle.meter import STATE, Meter
from tests.faults.oracle.owners import govern
from tests.faults.oracle.policies import resolved
from tests.faults.oracle.reservation_rows import held_fields
from tests.faults.oracle.reservations import MOST_OPEN, Reservation, Reservations, growth, length_of
from tests.faults.oracle.steps import STEPS, decide_step, granted
from tests.faults.oracle.thresholds import spent_ratio
from tests.faults.oracle.worth import atoms, is_sampled, price

Totals = tuple[Any, ...]
Verdict = tuple[str, str | None, Fields]
"""Outcome, reason, and the fields of such a decision."""
FACTS: Final[Fields] = {
    "closed_at": 0,
    "paused": False,
    "label": "",
    "in_force": None,
    "lifetime": None,
    "renewed_as": "",
    "recorded": False,
    "over_budget": False,
    "person_pauses": [],
    "spent": None,
}
"""What owners have said of a dataset, by the name in its row, which leaves out what is as here."""
_OUTSIDE: Final = ("cost", "crossed", "spent_ratio", "in_force")
"""What the decision on a release beyond a maximum says of it."""
_NEARLY = Fraction(19, 20)


@dataclass(frozen=True)
class Grant:
    """A claim that every limit of a dataset admits, and what it costs there.

    Attributes:
        by_state: the cost depends on the state of the filter.
    """

    levels: Levels
    charged: dict[str, Range]
    by_state: bool


class Dataset:
    """The state of a dataset after its decisions.

    Attributes:
        totals: in units, by name, exactly.
        written: the policy as the log has it.
        crossed: how many thresholds are crossed.
        granted_at: time of the first grant, milliseconds since 1970.
        facts: see `FACTS`.
        clock: of the owners' record that is decided.
        body, place: the input that is decided; hash and number of its decision.
    """

    clock: Clock
    body: bytes

    def __init__(self, name: str, policy: Fields, said: Fields, at: int) -> None:
        self.name = name
        self.sequence = 0
        self.generation = 1
        self.mechanisms = 0
        self.crossed = 0
        self.exhausted = self.closed = self.halted = False
        self.opened_at = self.changed_at = at
        self.granted_at: int | None = None
        self.facts = dict(FACTS)
        self.members = Members()
        self.asks = Asks()
        self.reservations = Reservations()
        self.approvals = Approvals()
        self.place = ("", 0)
        self.written = policy
        self.take_policy(resolved(policy), said)

    def take_policy(self, policy: Fields, said: Fields) -> None:
        """Start with nothing spent under a policy, with the budget in the ledger.

        Raises: Disagreement: the budget is not the filter's.
        """
        self.policy = policy
        self.sums = halves.sums(policy)
        self.names = odometers.names(policy)
        if not filters.is_by_state(policy):
            self.names = tuple(name for name in self.names if name not in self.sums)
        ranges = dict(zip(self.sums, halves.capacities(policy), strict=True))
        agree("budget", said, AmountRanges(ranges), self.name)
        self.capacity = {name: units(said[name]) for name in self.sums}
        self.totals: dict[str, Any] = dict.fromkeys((*halves.state(policy), *self.names), 0)
        self.division = Division(Meter(policy, self.capacity))

    @property
    def access(self) -> str:
        """Who may ask."""
        return str(self.policy.get("access", "anyone"))

    def spent_part(self) -> Fraction:
        """Return the spent part of the additive budget."""
        return min(Fraction(1), self.division.meter.part(self.division.meter.limits, self.totals))

    def crossed_now(self) -> int:
        """Return the number of thresholds that the totals have reached; exhaustion reaches all."""
        part = self.spent_part()
        alerts = self.policy["alert_at"]
        return len(alerts) if self.exhausted else sum(Fraction(ratio) <= part for ratio in alerts)

    def counted(self, at: int) -> Fields:
        """Count a decision of a time; return what every decision says after it."""
        self.sequence += 1
        self.changed_at = at
        return self.standing()

    def standing(self) -> Fields:
        """Return the fields that every decision of the dataset has, after it."""
        meter = self.division.meter
        room = halves.left(self.policy, meter.limits, self.totals)
        if meter.limits != meter.whole:
            room = {name: max(0, each) for name, each in room.items()}
        guarantee = self.reservations.stated_guarantee
        left = {name: as_text(whole_down(each)) for name, each in room.items()}
        return {
            "dataset": self.name,
            "generation": self.generation,
            "sequence": self.sequence,
            **self.spending(),
            "left": left,
            "odometers": Readings(self.readings()),
            **held_fields(self.reservations, self.totals, self.changed_at),
            **({"guarantee": guarantee} if guarantee else {}),
        }

    def spending(self) -> Fields:
        """Return the totals in their written form, and their rounding."""
        totals = {name: as_text(whole_up(total)) for name, total in self.totals.items()}
        fields: Fields = {"totals": {"mechanisms": self.mechanisms, **totals}}
        over = rounded_up(self.totals)
        return {**fields, "rounded_up": over} if over else fields

    def readings(self) -> Fields:
        """Return each odometer's exact reading of the written totals."""
        if self.reservations.is_void:
            return dict.fromkeys((each["type"] for each in self.policy["odometers"]), INFINITE)
        totals = {name: whole_up(total) for name, total in self.totals.items()}
        return {
            each["type"]: odometers.reading(each, self.policy, totals)
            for each in self.policy["odometers"]
        }

    def reached_first(self, crossed: list[str]) -> Fields:
        """Return the fields about thresholds that a decision is the first to reach."""
        if not crossed:
            return {}
        ratio = spent_ratio(min(self.spent_part(), Fraction(1)))
        in_force = self.facts["in_force"]
        more = {} if in_force is None else {"in_force": in_force}
        return {"crossed": crossed, "spent_ratio": ratio, **more}

    def begin(self, at: int) -> None:
        """End what ends without a record, before the next decision on the dataset."""
        self.division.end(at, self.sequence + 1)
        self.reservations.drop_final(at)
        self.approvals.drop(max(at, self.changed_at))

    def governed(self, record: Fields, said: Fields, clock: Clock) -> Verdict:
        """Decide an admin request on a dataset that is open."""
        self.clock = clock
        return govern(self, record, said, clock.at)

    def terms(self) -> Fields:
        """Return the fields that an opening or an amendment repeats."""
        budget = {name: as_text(most) for name, most in self.capacity.items()}
        return {"policy": self.policy, "budget": budget}

    def is_for_others(self, claim: Fields) -> bool:
        """Return whether a claim holds for other neighbours only."""
        return is_sampled(claim) and self.policy["neighbours"] != "add_remove"

    def _stopped(self, request: Fields) -> tuple[str | None, Fields]:
        """Return why nothing is granted, whatever is asked, and what the refusal says of it."""
        reserve = "reserve" in request
        many = reserve and len(self.reservations.open) >= MOST_OPEN
        full = self._full_holder(request) if reserve else {}
        paused = self.pause_of(request)
        states = {
            "closed": self.closed,
            "suspended": self.reservations.broken > 0,
            "paused": self.facts["paused"],
            "person_paused": paused is not None,
            "halted": self.halted,
            "too_many_open": many,
            "too_many_of_holder": bool(full),
        }
        reason = next((name for name, is_so in states.items() if is_so), None)
        said: Fields = {"too_many_of_holder": {"holder": full}, "person_paused": {"pause": paused}}
        return reason, said.get(reason or "", {})

    def pause_of(self, sender: Fields) -> Fields | None:
        """Return the pause that keeps a sender from asking, and from a begin."""
        return self.members.pause_of(self.facts["person_pauses"], sender)

    def _full_holder(self, request: Fields) -> Fields:
        """Return the first holder with as many open reservations as one may have, {} for none."""
        most = self.policy.get("open_per_holder")
        for field in ("analyst", "via"):
            name = request.get(field)
            if most is None or name is None:
                continue
            rows = [each.request for each in self.reservations.open.values()]
            count = sum(name in {row["analyst"], row.get("via")} for row in rows)
            if count >= most:
                return {"name": name, "open": count, "most": most}
        return {}

    def asked(
        self, request: Fields, said: Fields, clock: Clock, place: tuple[str, int] = ("", 0)
    ) -> Verdict:
        """Decide a request or a step, with the ledger's cost if it is a permitted one.

        Args:
            place: hash and number of the decision.
        """
        if request["type"] in STEPS:
            return decide_step(self, request, said, clock)
        found = self.considered(request, said, clock)
        if not isinstance(found, Grant):
            return found
        waits = self.waits(found, request, clock)
        if waits is not None:
            return waits
        return self.grant(found, request, said, clock, self.reservations.time(clock.at), place)

    def waits(
        self, found: Grant, request: Fields, clock: Clock, datasets: tuple[str, ...] = ()
    ) -> Verdict | None:
        """Return the decision on a request that fits and needs an approval, None for another."""
        claim = request["claim"]
        cost = price(claim, (*halves.needs(self.policy), *self.names))
        fits = Fits(self.policy, self.division.meter, self.totals, claim, found.levels)
        if not needs_approval(self, claim, fits.alone(claim, cost)):
            return None
        asked = {"asked": AmountRanges(cost, single=mechanisms(claim) == 1)}
        reason = "not_alone" if datasets else self.approvals.refusal(self, request, clock)
        if reason is not None:
            return "refused", reason, asked
        return "pending", None, {**asked, **wait(self, request, self.body, clock, self.place)}

    def approved(self, request: Fields, said: Fields) -> Verdict:
        """Decide a request that waits as if it were sent now, and approved."""
        found = self.considered(request, said, self.clock)
        if not isinstance(found, Grant):
            return found
        now = self.reservations.time(self.clock.at)
        return self.grant(found, request, said, self.clock, now, self.place)

    def considered(
        self, request: Fields, said: Fields, clock: Clock, datasets: tuple[str, ...] = ()
    ) -> Grant | Verdict:
        """Return why a request is refused, or its grant, of which nothing is charged yet.

        Args:
            datasets: all that the request is about, () for this one alone.
        """
        claim, policy = request["claim"], self.policy
        if not self.members.may_ask(request, self.access, clock.at):
            return "refused", "not_permitted", {}
        refined = refinements(claim)
        if not self.reservations.may_continue(refined, request["analyst"], clock.at, datasets):
            return "refused", "not_settled", {}
        stopped, said_of_it = self._stopped(request)
        if stopped is not None:
            return "refused", stopped, said_of_it
        if (request["unit"], request["neighbours"]) != (policy["unit"], policy["neighbours"]):
            return "refused", "unit_mismatch", {}
        if self.is_for_others(claim):
            return "refused", "claim_not_accepted", {}
        needs = halves.needs(policy)
        cost = price(claim, (*needs, *self.names))
        asked = {"asked": AmountRanges(cost, single=mechanisms(claim) == 1)}
        if not halves.accepts(policy, claim, cost):
            return "refused", "claim_not_accepted", asked
        analyst = request["analyst"]
        team = self.members.team(analyst, clock.at)
        levels = Levels(self.division, self.totals, analyst, team, clock)
        fits = Fits(policy, self.division.meter, self.totals, claim, levels)
        if fits.is_above_cap(claim, cost):
            return "refused", "above_cap", {**asked, **fits.offered(said)}
        charged = self._voidable(claim, cost) if "reserve" in request else None
        charged = charged if self._is_in_force(charged) else None
        by_state = charged is None and self.division.meter.is_by_state
        charged = self._charged(claim, cost, said) if charged is None else charged
        charged = charged if self._is_in_force(charged) else None
        if charged is None:
            more = {**asked, **levels.left_at()}
            return "refused", "exhausted", {**more, **self._exhaust(fits, said)}
        reason, more = levels.refusal(as_json(claim))
        if reason is not None:
            offer = fits.offered(said) if reason == "exhausted" else {}
            return "refused", reason, {**asked, **more, **offer}
        return Grant(levels, charged, by_state)

    def grant(
        self,
        grant: Grant,
        request: Fields,
        said: Fields,
        clock: Clock,
        now: int,
        place: tuple[str, int],
        datasets: tuple[str, ...] = (),
    ) -> Verdict:
        """Charge what was considered.

        Args:
            now: the time from which a reservation lasts.
            place, datasets: see above.
        """
        claim, reserve, levels = request["claim"], "reserve" in request, grant.levels
        if self.granted_at is None:
            self.granted_at = clock.at
        alerts, entries = self.policy["alert_at"], said.get("levels", [])
        text, number = as_json(claim), self.sequence + 1
        fields = levels.charge(text, entries, alerts, number, reserve=reserve)
        before = self.totals
        self.totals = dict(before)
        fields = {**self._grant(claim, grant.charged, said), **fields}
        if not reserve:
            return "granted", None, fields
        new = Reservation(
            grant=place[0],
            number=place[1],
            sequence=number,
            request=request,
            reserved_at=now,
            deadline=now + length_of(request["reserve"]["until"]),
            charged=growth(before, self.totals),
            after=self.totals.get(STATE),
            by_state=grant.by_state,
            charges=levels.charges,
            datasets=datasets,
        )
        self.reservations.add(new, clock.at)
        return "reserved", None, {**fields, "reservation": granted(new)}

    def _is_in_force(self, charged: dict[str, Range] | None) -> bool:
        """Return whether a charge stays within the budget in force."""
        if charged is None:
            return False
        after = {name: plus(total, charged[name][0]) for name, total in self.totals.items()}
        return self.division.meter.is_in_force(after)

    def take_in_force(self, budget: Fields, said: Fields) -> Fields:
        """Put a budget in force; return it as its decision states it.

        Raises: Disagreement: what it allows of a sum is not as of a policy with this budget.
        """
        part = {**self.policy, **budget}
        stated = said.get("in_force") or {}
        ranges = dict(zip(self.sums, halves.capacities(part), strict=True))
        agree("in_force.budget", stated.get("budget"), AmountRanges(ranges), self.name)
        self.facts["in_force"] = {**budget, "budget": stated["budget"]}
        self.limit_to(self.facts["in_force"])
        return {"in_force": self.facts["in_force"]}

    def limit_to(self, in_force: Fields | None) -> None:
        """Limit each sum to what a budget in force allows of it."""
        if in_force is not None:
            allowed = {name: units(text) for name, text in in_force["budget"].items()}
            limits = {name: min(most, allowed[name]) for name, most in self.capacity.items()}
            self.division.meter = self.division.meter.below(limits)

    def start_with(self, spent: Fields, said: Fields) -> Fields:
        """Charge what was released before the opening; return what the opening says of it."""
        fields = self.charge_outside(spent["claim"], said, is_first=True)
        self.facts["spent"] = {n: each for n, each in spent.items() if each is not False}
        return fields or {}

    def record(self, record: Fields, said: Fields) -> Verdict:
        """Charge a release made elsewhere, which nothing refuses but the lack of a price."""
        claim = record["claim"]
        cost = price(claim, halves.needs(self.policy))
        bounded = halves.is_beside(self.policy) and cost["epsilon"][0] != INFINITE
        if self.division.meter.is_by_state:
            return "refused", "record_not_possible", {}
        if self.is_for_others(claim):
            return "refused", "claim_not_accepted", {}
        if not (bounded or filters.accepts(self.policy, claim, cost)):
            return "refused", "claim_not_accepted", {}
        more = self.charge_outside(claim, said, (*_OUTSIDE, "ends"), keeps_shares=False)
        became = "void" if more is None else "if_bounded"
        self.reservations.worsen(became)
        self.facts |= {"recorded": True} | ({"over_budget": True} if more is None else {})
        if more is not None and self.granted_at is None:
            self.granted_at = self.clock.at
        levels = Fields()
        if record.get("team") is not None:
            now = Levels(self.division, self.totals, "", record["team"], self.clock)
            now.only_team()
            entries, alerts = said.get("levels", []), self.policy["alert_at"]
            text = as_json(claim)
            levels = now.charge(text, entries, alerts, self.sequence + 1, above=True)
        cut = self.division.cut_shares(self.totals, self.sequence + 1)
        return "recorded", None, {**(more or {}), **levels, **cut}

    def charge_outside(
        self,
        claim: Fields,
        said: Fields,
        names: tuple[str, ...] = _OUTSIDE,
        *,
        keeps_shares: bool = True,
        is_first: bool = False,
    ) -> Fields | None:
        """Charge what was released beyond a maximum; return None if it does not fit.

        Under gdp_residue it never does: its cost depends on the grants that came after it.

        Args:
            names: the fields of the decision to return.
            keeps_shares: it does not fit either where shares would not be kept.
            is_first: it came before all grants.
        """
        if self.division.meter.is_by_state and not is_first:
            return None
        cost = price(claim, (*halves.needs(self.policy), *self.names))
        charged = self._charged(claim, cost, said)
        if charged is None:
            return None
        after = {n: plus(total, charged[n][0]) for n, total in self.totals.items()}
        withheld = self.division.all_withheld()
        breaks = any(after[n] + withheld[n] > most for n, most in self.capacity.items())
        if breaks and keeps_shares:
            return None
        fields = self._grant(claim, charged, said)
        return {name: fields[name] for name in names if name in fields}

    def _voidable(self, claim: Fields, cost: dict[str, Range]) -> dict[str, Range] | None:
        """Return what a reservation is charged under gdp_residue, where all of it fits."""
        charged = self.division.meter.voidable(self.capacity, self.totals, as_json(claim))
        if charged is None:
            return None
        return {**charged, **{name: cost[name] for name in self.names}}

    def _charged(
        self, claim: Fields, cost: dict[str, Range], said: Fields
    ) -> dict[str, Range] | None:
        """Return the ranges that a grant may charge; None if the claim does not fit."""
        own = self._by_filter(claim, cost, said)
        charged = halves.charged(self.policy, self.capacity, self.totals, own, cost)
        if charged is None:
            return None
        return {**charged, **{name: cost[name] for name in self.names}}

    def _by_filter(
        self, claim: Fields, cost: dict[str, Range], said: Fields
    ) -> dict[str, Range] | None:
        names = filters.sums(self.policy)
        spent = tuple(self.totals[name] for name in names)
        capacity = tuple(self.capacity[name] for name in names)
        if filters.is_by_state(self.policy):
            found = residue.charge(list(atoms(claim)), capacity[0] - spent[0])
            if found is None or spent[1] + cost["delta"][0] > capacity[1]:
                return None
            least: Totals = (spent[0] + found[0], spent[1] + cost["delta"][0])
            own = {"mu_squared": found, "delta": cost["delta"]}
        else:
            least = tuple(
                plus(before, taken(said, name, before, cost[name]))
                for name, before in zip(names, spent, strict=True)
            )
            own = {name: cost[name] for name in names}
        return own if filters.admits(self.policy, capacity, least) else None

    def _exhaust(self, fits: Fits, said: Fields) -> Fields:
        halts = bool(self.policy.get("halt_on_refusal"))
        before, alerts = self.crossed, self.policy["alert_at"]
        if halts or self.spent_part() >= _NEARLY:
            self.exhausted, self.crossed = True, len(alerts)
        self.halted = self.halted or halts
        fields: Fields = {} if halts else fits.offered(said)
        return {**fields, **self._newly(before)}

    def _newly(self, before: int) -> Fields:
        return self.reached_first(self.policy["alert_at"][before : self.crossed])

    def _grown(self, name: str, span: Range, said: Fields) -> Range:
        before = self.totals[name]
        priced = is_priced(self.policy) and said.get("outcome") not in {
            "resolved",
            "recorded",
            "opened",
        }
        if before == INFINITE and not priced:
            return INFINITE, INFINITE
        if INFINITE in (before, span[0]):
            return span
        low, high = (whole_up(before + each) - whole_up(before) for each in span)
        return low, high

    def _grant(self, claim: Fields, charged: dict[str, Range], said: Fields) -> Fields:
        # Near a refusal the residue's root is taken with all its digits.
        is_single = mechanisms(claim) == 1 and not filters.is_by_state(self.policy)
        # A cost is written as what the total, as it is written, grows by.
        grown = {name: self._grown(name, span, said) for name, span in charged.items()}
        predicted = AmountRanges(grown, single=is_single)
        if said.get("outcome") in {"granted", "reserved", "resolved", "recorded", "opened"}:
            if not predicted == said.get("cost"):
                raise Disagreement("cost", said.get("cost"), predicted, self.name)
            for name, text in said["cost"].items():
                before = self.totals[name]
                self.totals[name] = plus(before, exact(units(text), before, charged[name][0]))
        before = self.crossed
        self.mechanisms += mechanisms(claim)
        self.exhausted = self.exhausted or self.spent_part() >= 1
        reached = sum(Fraction(ratio) <= self.spent_part() for ratio in self.policy["alert_at"])
        self.crossed = max(before, reached)
        ended = {"ends": self.policy["filter"]} if charged.get(halves.ENDED, (0, 0))[0] else {}
        return {"cost": predicted, **self._newly(before), **ended}
