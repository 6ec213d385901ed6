"""The limits that one request is checked against: docs/reference/reasons.md, `exhausted`.

All are looked at before any is charged, in the order dataset, team, analyst or each.
"""

from __future__ import annotations

import json

from tests.faults.oracle.amounts import Range
from tests.faults.oracle.division import Division
from tests.faults.oracle.expected import Fields
from tests.faults.oracle.limits import Clock, Limit, Use
from tests.faults.oracle.meter import STATE, Amounts, amount_fields, down, grown
from tests.faults.oracle.reservations import Charge, growth
from tests.faults.oracle.texts import at_text
from tests.faults.oracle.thresholds import report

_NOTHING: Fields = {}


class Levels:
    """The limits that apply to an analyst now.

    Args:
        spent: the dataset's totals.
        team: whose member the analyst is.

    Attributes:
        reserved: the amounts in reserved shares of which the analyst may use nothing.
        charges: what the grant has charged to each limit.
    """

    def __init__(
        self, division: Division, spent: Amounts, analyst: str, team: str | None, clock: Clock
    ) -> None:
        self._division = division
        self._meter = division.meter
        self._spent = spent
        self._analyst, self._team, self._clock = analyst, team, clock
        self._applying = list(division.applying(analyst, team))
        self.reserved = division.kept_back(analyst, team)
        self.charges: list[Charge] = []

    def only_team(self) -> None:
        """Leave the limits of the team alone: it has released something without a request."""
        self._applying = [pair for pair in self._applying if pair[0].scope == "team"]

    @property
    def filters(self) -> set[str]:
        """Names of the limits' own filters."""
        return {limit.meter.policy["filter"] for limit, _ in self._applying if limit.meter}

    @property
    def _keeps(self) -> bool:
        return any(amount > 0 for amount in self.reserved.values())

    def unfit(self, claim: str) -> Fields | None:
        """Return the first limit with an own filter that accepts no such claim."""
        for limit, _ in self._applying:
            if limit.meter is not None and not limit.meter.accepts(claim):
                return {**limit.head, "what": "limit"}
        return None

    def full(self, claim: str) -> Fields | None:
        """Return the first limit without room for a claim."""
        cost = self._meter.price(claim)
        if self._keeps and any(
            self._spent[name] + self.reserved[name] + cost[name][0] > most
            for name, most in self._meter.limits.items()
        ):
            return {"scope": "dataset", "what": "reserved"}
        for limit, use in self._applying:
            if limit.meter is not None:
                counted = limit.counted(use)
                if limit.meter.charged(limit.capacity, counted, claim) is None:
                    return {**limit.head, "what": "limit"}
            if limit.pace is not None:
                _, paced = limit.paced(use, self._meter, self._clock)
                if self._meter.charged(limit.pace, paced, claim) is None:
                    return {**limit.head, "what": "pace"}
        return None

    def refusal(self, claim: str) -> tuple[str | None, Fields]:
        """Return why a limit refuses a claim that fits the dataset, and the refusal's fields."""
        level = self.unfit(claim)
        if level is not None:
            return "claim_not_accepted", {"level": level}
        level = self.full(claim)
        return (
            (None, {}) if level is None else ("exhausted", {"level": level, **self.left_at(claim)})
        )

    def admit(self, claim: str) -> bool:
        """Return whether every limit accepts a claim and has room for it."""
        return self.unfit(claim) is None and self.full(claim) is None

    def left_at(self, claim: str | None = None) -> Fields:
        """Return the field with the remaining amounts of each limit, if there are limits.

        Args:
            claim: what the dataset itself has room for: a pace tells when it will have some.
        """
        found: list[Fields] = []
        if self._keeps:
            free = {
                name: most - self._spent[name] - self.reserved[name]
                for name, most in self._meter.limits.items()
            }
            found.append({"scope": "dataset", "left": down(free)})
        for limit, use in self._applying:
            more: Fields = {}
            if limit.meter is not None:
                more["left"] = down(limit.meter.left(limit.capacity, limit.counted(use)))
            if limit.pace is not None:
                begin, paced = limit.paced(use, self._meter, self._clock)
                more["pace_left"] = down(self._meter.left(limit.pace, paced))
                none = self._meter.nothing()
                end = limit.periods.around(begin)[1]
                lasts = limit.until is None or end < limit.until
                fits = claim and self._meter.charged(limit.pace, none, claim) is not None
                if fits and lasts:
                    more["more_at"] = at_text(end)
            if more and limit.until is not None:
                more["until"] = at_text(limit.until)
            if limit.scope == "dataset" and found:
                found[0] |= more
            elif more:
                found.append({**limit.head, **more})
        return {"left_at": found} if found else {}

    def charge(
        self,
        claim: str,
        said: list[Fields],
        alerts: list[str],
        sequence: int,
        *,
        reserve: bool = False,
        above: bool = False,
    ) -> Fields:
        """Charge a granted claim to each limit; return the field about it.

        Args:
            said: what the ledger tells, of which amounts within the rounding are taken.
            sequence: of the decision.
            reserve: the claim may be voided later.
            above: nothing refuses it: a limit may be above its amount then.
        """
        entries = []
        price = self._meter.price(claim)
        cost = {name: price[name] for name in self._meter.sums}
        own = self._division.share_of("analyst", self._analyst)
        spare = own.spare() if own is not None else {}
        for limit, use in self._applying:
            use.sequence = sequence
            if limit.scope == "each":
                limit.uses[self._analyst] = use
            right = _entry(said, limit)
            entry: Fields = {**limit.head, "version": limit.version}
            charge = Charge(limit, self._analyst)
            if limit.meter is not None:
                entry |= self._count(
                    charge, use, claim, right, alerts, reserve=reserve, above=above
                )
            if limit.pace is not None:
                entry |= self._hasten(charge, use, claim, right, above=above)
            if limit.share is not None:
                entry |= _draw(charge, use, cost, right)
            entries.append(entry)
            self.charges.append(charge)
        booked = own.booked if own is not None else None
        pot = self._division.share_of("team", booked) if booked is not None else None
        if pot is not None and booked != self._team:
            pot.use.sequence = sequence
            drawn = {n: (min(cost[n][0], spare[n]), min(cost[n][1], spare[n])) for n in cost}
            charge = Charge(pot, self._analyst)
            moved = _draw(charge, pot.use, drawn, _entry(said, pot))
            place = sum(each["scope"] in {"dataset", "team"} for each in entries)
            entries.insert(place, {**pot.head, "version": pot.version, **moved})
            self.charges.insert(place, charge)
        return {"levels": entries} if entries else {}

    def _count(
        self,
        charge: Charge,
        use: Use,
        claim: str,
        right: Fields,
        alerts: list[str],
        *,
        reserve: bool,
        above: bool,
    ) -> Fields:
        limit, meter = charge.limit, charge.limit.meter
        assert meter is not None
        before = limit.counted(use)
        said = right.get("totals")
        if above:
            after = meter.above(limit.capacity, before, claim, said)
        else:
            after = meter.charged(limit.capacity, before, claim, said, reserve=reserve)
        if after is None:  # another decision than the ledger's, whose outcome is known
            return {}
        charge.counted, charge.since, charge.meter = (
            growth(before, after),
            limit.counted_since,
            meter,
        )
        charge.after = after.get(STATE)
        charge.by_state = (
            meter.is_by_state and meter.voidable(limit.capacity, before, claim) is None
        )
        use.counted = limit.counted_since, after
        return amount_fields("totals", after) | report(limit, use, alerts, before, after)

    def _hasten(
        self, charge: Charge, use: Use, claim: str, right: Fields, *, above: bool
    ) -> Fields:
        limit = charge.limit
        assert limit.pace is not None
        begin, paced = limit.paced(use, self._meter, self._clock)
        charge_to = self._meter.above if above else self._meter.charged
        after = charge_to(limit.pace, paced, claim, right.get("paced"))
        if after is None:
            return {}
        use.paced, use.resets = (begin, after), self._clock.resets
        charge.paced, charge.begin, charge.resets = growth(paced, after), begin, use.resets
        return {"window": limit.periods.number(begin), **amount_fields("paced", after)}


def _entry(said: list[Fields], limit: Limit) -> Fields:
    """Return the ledger's fields of a limit."""
    named = limit.scope, limit.head.get("name")
    found = (each for each in said if (each.get("scope"), each.get("name")) == named)
    return next(found, _NOTHING)


def _draw(charge: Charge, use: Use, cost: dict[str, Range], right: Fields) -> Fields:
    limit, entries = charge.limit, right.get("used", {})
    before = limit.used()
    used = {name: grown(was, cost[name], entries.get(name)) for name, was in before.items()}
    use.used = limit.shared_since, used
    charge.used, charge.shared = growth(before, used), limit.shared_since
    return amount_fields("used", used)


def as_json(claim: Fields) -> str:
    """Return a text that is equal for equal claims."""
    return json.dumps(claim, sort_keys=True)
