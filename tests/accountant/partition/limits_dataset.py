"""One dataset as far as limits, pace and reserved shares matter, decided by the documents."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from tests.accountant.partition.limits_division import Division
from tests.accountant.partition.limits_levels import Clock, Limit, Use, amounts_told, any_of, down
from tests.accountant.partition.limits_numbers import (
    Amounts,
    Fields,
    Meter,
    is_budget_of,
    read,
    resolved,
    texts,
)
from tests.accountant.partition.members_model import ROLES, time_of
from tests.faults.oracle.fits import Fits
from tests.faults.oracle.policies import promises_more
from tests.faults.oracle.wire import is_claim

Body = dict[str, Any]


class Dataset:
    """What a dataset has come to.

    Attributes:
        members: of each name its roles, `team`, and `until` in milliseconds.
        spent: exactly, in units.
    """

    def __init__(self, policy: Body, budget: dict[str, str], owner: str) -> None:
        self.sequence = 0
        self.closed = self.halted = self.granted = False
        self.members: dict[str, Fields] = {owner: {"roles": ["owner"], "sequence": 1}}
        self.take_policy(resolved(policy), budget)

    def take_policy(self, policy: Body, budget: dict[str, str]) -> None:
        self.policy = policy
        self.meter = Meter(policy, read(budget))
        self.spent = self.meter.nothing()
        self.division = Division(self.meter)

    @property
    def owners(self) -> list[str]:
        return [name for name, row in self.members.items() if "owner" in row["roles"]]

    def member(self, name: str, at: int) -> Fields:
        row = self.members.get(name, {"roles": []})
        return row if at < row.get("until", at + 1) else {"roles": []}

    def ask(self, body: Body, clock: Clock) -> Fields:
        """Decide a request; return what its decision says of it."""
        analyst, at = body["analyst"], clock.at
        via = body.get("via")
        if via is not None and "engine" not in self.member(via, at)["roles"]:
            return {"reason": "not_permitted"}
        roles = self.member(analyst, at)["roles"]
        if self.policy.get("access") == "members" and "analyst" not in roles:
            return {"reason": "not_permitted"}
        if self.closed or self.halted:
            return {"reason": "closed" if self.closed else "halted"}
        if (body["unit"], body["neighbours"]) != (self.policy["unit"], self.policy["neighbours"]):
            return {"reason": "unit_mismatch"}
        claim = json.dumps(body["claim"], sort_keys=True)
        team = self.member(analyst, at).get("team")
        return self._ask(claim, analyst, team, clock)

    def _ask(self, claim: str, analyst: str, team: str | None, clock: Clock) -> Fields:
        whole, applying = self.meter.whole, list(self.division.applying(analyst, team))
        if not self.meter.accepts(claim):
            return {"reason": "claim_not_accepted"}
        fits = FitsEverywhere(
            self.policy, whole, self.spent, json.loads(claim),
            lambda like: self._admits(like, analyst, team, clock),
        )  # fmt: skip
        if self.is_above_cap(claim):
            return {"reason": "above_cap", "fits": fits}
        kept = self.division.kept_back(analyst, team)
        left_at = self._left_at(applying, kept, clock)
        exhausted = {"reason": "exhausted", **({"left_at": left_at} if left_at else {})}
        after = self.meter.charged(whole, self.spent, claim)
        if after is None:
            self.halted = self.halted or bool(self.policy.get("halt_on_refusal"))
            return exhausted if self.halted else {**exhausted, "fits": fits}
        for limit, _ in applying:
            if limit.meter is not None and not limit.meter.accepts(claim):
                return {"reason": "claim_not_accepted", "level": {**limit.head, "what": "limit"}}
        full = self._full(claim, applying, kept, clock)
        if full is not None:
            return {**exhausted, "level": full, "fits": fits}
        told = self._charge(claim, analyst, team, applying, clock)
        self.spent, self.granted = after, True
        return {"levels": told} if told else {}

    def is_above_cap(self, claim: str) -> bool:
        cap = Fraction(self.policy.get("most_per_request", "1"))
        if cap >= 1:
            return False
        alone = self.meter.charged(self.meter.whole, self.meter.nothing(), claim)
        return alone is None or self.meter.part(self.meter.whole, alone) > cap

    def _admits(self, claim: str, analyst: str, team: str | None, clock: Clock) -> bool:
        """Tell whether a claim would be granted, as far as sums say."""
        applying = list(self.division.applying(analyst, team))
        if not self.meter.accepts(claim) or self.is_above_cap(claim):
            return False
        if self.meter.charged(self.meter.whole, self.spent, claim) is None:
            return False
        if any(limit.meter and not limit.meter.accepts(claim) for limit, _ in applying):
            return False
        kept = self.division.kept_back(analyst, team)
        return self._full(claim, applying, kept, clock) is None

    def _full(
        self, claim: str, applying: list[tuple[Limit, Use]], kept: Amounts, clock: Clock
    ) -> Fields | None:
        """Return the first level that has no room."""
        whole, cost = self.meter.whole, self.meter.cost(claim)
        if any_of(kept) and any(
            self.spent[name] + kept[name] + cost[name] > whole[name] for name in self.meter.sums
        ):
            return {"scope": "dataset", "what": "reserved"}
        for limit, use in applying:
            if limit.meter is not None and (
                limit.meter.charged(limit.capacity, limit.counted(use), claim) is None
            ):
                return {**limit.head, "what": "limit"}
            if limit.pace is not None:
                _, paced = limit.paced(use, self.meter, clock)
                if self.meter.charged(limit.pace, paced, claim) is None:
                    return {**limit.head, "what": "pace"}
        return None

    def _left_at(
        self, applying: list[tuple[Limit, Use]], kept: Amounts, clock: Clock
    ) -> list[Fields]:
        whole, found = self.meter.whole, []
        if any_of(kept):
            free = {name: whole[name] - self.spent[name] - kept[name] for name in self.meter.sums}
            found.append({"scope": "dataset", "left": texts(down(free))})
        for limit, use in applying:
            entry: Fields = limit.head
            if limit.meter is not None:
                left = limit.meter.left(limit.capacity, limit.counted(use))
                entry = {**entry, "left": texts(left)}
            if limit.pace is not None:
                _, paced = limit.paced(use, self.meter, clock)
                entry = {**entry, "pace_left": texts(self.meter.left(limit.pace, paced))}
            if limit.scope == "dataset" and found:
                found[0] |= entry
            elif len(entry) > len(limit.head):
                found.append(entry)
        return found

    def _charge(
        self,
        claim: str,
        analyst: str,
        team: str | None,
        applying: list[tuple[Limit, Use]],
        clock: Clock,
    ) -> list[Fields]:
        """Charge a granted claim at every level; return what the decision says of them."""
        told = []
        cost = {name: self.meter.cost(claim)[name] for name in self.meter.sums}
        own = self.division.share_of("analyst", analyst)
        spare = own.spare() if own is not None else {}
        for limit, use in applying:
            use.sequence = self.sequence + 1
            if limit.scope == "each":
                limit.uses[analyst] = use
            entry: Fields = {**limit.head, "version": limit.version}
            if limit.meter is not None:
                entry |= self._count(limit, use, claim)
            if limit.pace is not None:
                window, paced = limit.paced(use, self.meter, clock)
                after = self.meter.charged(limit.pace, paced, claim)
                assert after is not None
                use.paced, use.window = (limit.paced_since, after), window
                use.resets = clock.resets
                entry |= {"window": window, **amounts_told("paced", after)}
            if limit.share is not None:
                entry |= self._draw(limit, use, cost)
            told.append(entry)
        booked = own.booked if own is not None else None
        pot = self.division.share_of("team", booked) if booked is not None else None
        if pot is not None and booked != team:
            pot.use.sequence = self.sequence + 1
            drawn = {name: min(cost[name], spare[name]) for name in cost}
            moved = {**pot.head, "version": pot.version, **self._draw(pot, pot.use, drawn)}
            told.insert(sum(each["scope"] in {"dataset", "team"} for each in told), moved)
        return told

    def _count(self, limit: Limit, use: Use, claim: str) -> Fields:
        assert limit.meter is not None
        before = limit.counted(use)
        after = limit.meter.charged(limit.capacity, before, claim)
        assert after is not None
        use.counted = limit.counted_since, after
        was, now = (limit.meter.part(limit.capacity, each) for each in (before, after))
        crossed = [each for each in self.policy["alert_at"] if was < Fraction(each) <= now]
        return amounts_told("totals", after) | ({"crossed": crossed} if crossed else {})

    @staticmethod
    def _draw(limit: Limit, use: Use, amounts: Amounts) -> Fields:
        used = {name: before + amounts[name] for name, before in limit.used().items()}
        use.used = limit.shared_since, used
        return amounts_told("used", used)

    def govern(self, body: Body, clock: Clock, said: Fields) -> Fields:
        """Decide an owner's record; return what its decision says of it."""
        kind = body["type"]
        if kind == "open":
            return {"reason": "already_opened"}
        if self.owners and body["by"] not in self.owners:
            return {"reason": "not_permitted"}
        if self.closed and kind != "member":
            return {"reason": "closed"}
        if body.get("follows") not in (None, self.sequence):
            return {"reason": "out_of_date"}
        if kind == "member":
            return self._member(body)
        if kind == "limit":
            return self._limit(body, clock, said)
        if kind == "close":
            self.closed = True
            return {"outcome": "closed"}
        if "policy" in body:
            return self._lower(body["policy"], said)
        self.policy["alert_at"] = body["alert_at"]
        return {"outcome": "amended"}

    def _lower(self, policy: Body, said: Fields) -> Fields:
        if self.granted:
            return {"reason": "already_granted"}
        if self.division.in_force():
            return {"reason": "has_limits"}
        full = resolved(policy)
        if promises_more(full, self.policy):
            return {"reason": "not_lower"}
        rows = self.division.limits
        assert is_budget_of(full, said["budget"])
        self.take_policy(full, said["budget"])
        self.division.limits = rows
        return {"outcome": "amended"}

    def _limit(self, body: Body, clock: Clock, said: Fields) -> Fields:
        name = body.get("name") or ""
        team = self.member(name, clock.at).get("team") if body["scope"] == "analyst" else None
        reason = self.division.refusal(body, team, self.spent)
        if reason is not None:
            return {"reason": reason}
        if body.get("policy") is not None:
            budget = said.get("limit", {}).get("budget", {})
            assert is_budget_of(resolved(body["policy"]), budget), (body, budget)
        told = self.division.take(body, team, clock.at, said, self.sequence + 1)
        in_force = self.division.limits[body["scope"], name].in_force
        return {"outcome": "limit_set" if in_force else "limit_removed", "limit": told}

    def _member(self, body: Body) -> Fields:
        name = body["member"]
        roles = [role for role in ROLES if role in body["roles"]]
        if not roles and name not in self.members:
            return {"reason": "unknown_member"}
        if self.owners == [name] and "owner" not in roles:
            return {"reason": "last_owner"}
        if not roles:
            del self.members[name]
            return {"outcome": "member_removed"}
        row: Fields = {"roles": roles, "sequence": self.sequence + 1}
        if "team" in body:
            row["team"] = body["team"]
        if "until" in body:
            row["until"] = time_of(body["until"])
        self.members[name] = row
        return {"outcome": "member_set"}


class FitsEverywhere(Fits):
    """The largest claim like one that every level admits, and the cap."""

    def __init__(
        self,
        policy: Body,
        capacity: Amounts,
        spent: Amounts,
        claim: Body,
        admits: Callable[[str], bool],
    ) -> None:
        super().__init__(policy, capacity, spent, claim)
        self._everywhere = admits

    def admits(self, claim: Body) -> bool:
        return is_claim(claim, 0) and self._everywhere(json.dumps(claim, sort_keys=True))
