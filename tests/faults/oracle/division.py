"""The limits of one dataset's budget: plain, slow, independent.

Each rule is that of docs/reference/records/limits.md. Sums that the product keeps are added up
again each time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from tests.faults.oracle.disagreement import agree
from tests.faults.oracle.expected import Fields
from tests.faults.oracle.limits import Limit, Use
from tests.faults.oracle.meter import Amounts, Meter, budget_of, down, read, texts
from tests.faults.oracle.policies import resolved
from tests.faults.oracle.texts import millis

KEEPS_SHARES: Final = {
    *("basic", "ex_post", "zcdp", "zcdp_tight", "fully_adaptive", "unified_brownian", "renyi"),
}
SAYS: Final = ("part", "policy", "pace", "reserved")


class Division:
    """The state of a dataset's limits after its admin requests.

    Attributes:
        meter: the dataset's own.
        limits: by scope and name, removed ones too.
    """

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self.limits: dict[tuple[str, str], Limit] = {}

    def in_force(self) -> list[Limit]:
        return [limit for limit in self.limits.values() if limit.in_force]

    def all_set(self) -> list[Limit]:
        return [limit for limit in self.limits.values() if limit.is_set]

    def end(self, at: int, sequence: int | None) -> None:
        """End what is over at a time, before anything else is decided of the dataset."""
        for limit in self.limits.values():
            limit.end(at, sequence)

    def applying(self, analyst: str, team: str | None) -> Iterator[tuple[Limit, Use]]:
        """Yield the limits in force for an analyst, in the order of the checks."""
        keys = [("dataset", ""), ("analyst", analyst)]
        if team is not None:
            keys.insert(1, ("team", team))
            own = self.limits.get(keys[2])
            if own is None or not own.in_force:
                keys[2] = "each", team
        for key in keys:
            limit = self.limits.get(key)
            if limit is not None and limit.in_force:
                yield limit, limit.use_of(analyst)

    def shares_in(self, team: str | None) -> list[Limit]:
        """Return the reserved shares of analysts that count within a team, or within none."""
        return [
            limit
            for limit in self.in_force()
            if limit.scope == "analyst" and limit.share is not None and limit.booked == team
        ]

    def share_of(self, scope: str, name: str | None) -> Limit | None:
        limit = self.limits.get((scope, name or ""))
        return limit if limit is not None and limit.share is not None else None

    def withheld(self, team: str) -> Amounts:
        """Return the amount that a team's share and those within it reserve from others."""
        found = self._together(team)
        pot = self.share_of("team", team)
        if pot is not None and pot.share is not None:
            used = pot.used()
            found = {n: max(found[n], most - used[n]) for n, most in pot.share.items()}
        return found

    def _together(self, team: str | None) -> Amounts:
        found = dict.fromkeys(self.meter.sums, Fraction(0))
        for limit in self.shares_in(team):
            for name, spare in limit.spare().items():
                found[name] += spare
        return found

    def all_withheld(self) -> Amounts:
        found = self._together(None)
        for team in {
            name
            for limit in self.in_force()
            if limit.share is not None
            for name in [limit.name if limit.scope == "team" else limit.booked]
            if name is not None
        }:
            for name, amount in self.withheld(team).items():
                found[name] += amount
        return found

    def kept_back(self, analyst: str, team: str | None) -> Amounts:
        """Return the reserved amounts that an analyst may not use."""
        reserved = self.all_withheld()
        own = self.share_of("analyst", analyst)
        if team is not None:
            others = self._together(team)
            if own is not None and own.booked == team:
                others = {name: others[name] - spare for name, spare in own.spare().items()}
            for name, amount in self.withheld(team).items():
                reserved[name] -= amount - others[name]
        if own is not None and (team is None or own.booked != team):
            for name, spare in own.spare().items():
                reserved[name] -= spare
        return reserved

    def refusal(
        self, body: Fields, team: str | None, spent: Amounts, at: int, lead: str | None = None
    ) -> str | None:
        """Return why a permitted record is not applied.

        Args:
            lead: the team whose lead sends it, None for no lead's.
        """
        scope, name = body["scope"], body.get("name") or ""
        part, policy, pace, share = (body.get(each) for each in SAYS)
        known = self.limits.get((scope, name))
        there = known is not None and known.in_force
        if (part, policy, pace, share) == (None, None, None, None):
            if known is None or not known.is_set:
                return "unknown_limit"
            return "beyond_team" if lead is not None and self._is_elsewhere(known, lead) else None
        if body.get("until") is not None and millis(body["until"]) <= at:
            return "end_in_past"
        filter_name = self.meter.policy["filter"]
        if self.meter.is_by_state and (part is not None or pace is not None):
            return "limit_not_possible"
        keeps = filter_name in KEEPS_SHARES and "beside" not in self.meter.policy
        if share is not None and not keeps:
            return "limit_not_possible"
        for ratio in (part, None if pace is None else pace["part"], share):
            if ratio is not None and self._leaves_nothing(ratio):
                return "limit_not_possible"
        if lead is not None and self._is_beyond(body, known, team, lead):
            return "beyond_team"
        if share is not None and self._is_over(scope, name, share, team, spent):
            return "over_reserved"
        if not there and len(self.in_force()) >= 1_000:
            return "too_many_limits"
        return None

    def _leaves_nothing(self, ratio: str) -> bool:
        parts, whole = self.meter.parts_of_whole(ratio), self.meter.whole
        return any(whole[name] > 0 and not parts[name] for name in whole)

    def _is_elsewhere(self, known: Limit | None, lead: str) -> bool:
        """Return whether an analyst has a share that no team contains, or another one."""
        return known is not None and known.share is not None and known.booked != lead

    def _is_beyond(self, body: Fields, known: Limit | None, team: str | None, lead: str) -> bool:
        """Return whether a lead's limit is above the team's, or withholds more from others."""
        part, policy, pace, share = (body.get(each) for each in SAYS)
        if self._is_elsewhere(known, lead):
            return True
        default = self.limits.get(("each", lead))
        if default is not None and default.in_force and default.pace is not None:
            if pace is None or _days(pace["period"]) < _days(default.period):
                return True
            amounts = self.meter.parts_of_whole(pace["part"])
            if any(amounts[name] > most for name, most in default.pace.items()):
                return True
        pot = self.limits.get(("team", lead))
        if share is not None:
            ends = None if body.get("until") is None else millis(body["until"])
            if team != lead or pot is None or pot.share is None:
                return True
            if pot.until is not None and (ends is None or ends > pot.until):
                return True
            before, after = self.all_withheld(), self._with_share(body, share, team).all_withheld()
            if any(after[name] > before[name] for name in before):
                return True
        if pot is None or not pot.in_force:
            return False
        if pace is not None and pot.pace is not None:
            amounts = self.meter.parts_of_whole(pace["part"])
            if any(amounts[name] > most for name, most in pot.pace.items()):
                return True
        if pot.meter is None or (part is None and policy is None):
            return False
        own, kind = self.meter.whole, self.meter.kind
        if policy is None:
            own = self.meter.parts_of_whole(part)
        else:
            full = resolved(policy)
            # Where the written amount is not known exactly: the team's may come from the same text.
            own = {name: low for name, (low, _) in budget_of(json.dumps(full)).ranges.items()}
            kind = type(self.meter)(full, own).kind
        return kind != pot.meter.kind or any(own[n] > most for n, most in pot.capacity.items())

    def _is_over(self, scope: str, name: str, ratio: str, team: str | None, spent: Amounts) -> bool:
        """Return whether the reserved shares would exceed the remaining budget, by trying it."""
        trial = self._with_share({"scope": scope, "name": name}, ratio, team)
        within = name if scope == "team" else trial.limits[scope, name].booked
        pot = trial.share_of("team", within) if within else None
        if pot is not None and pot.share is not None:
            parts = [limit.share or {} for limit in trial.shares_in(within)]
            if any(sum(part[n] for part in parts) > most for n, most in pot.share.items()):
                return True
        reserved = trial.all_withheld()
        return any(spent[n] + reserved[n] > self.meter.limits[n] for n in self.meter.sums)

    def _with_share(self, body: Fields, ratio: str, team: str | None) -> Division:
        """Return these limits with another share of one of them."""
        scope, name = body["scope"], body.get("name") or ""
        before = self.limits.get((scope, name))
        trial = Division(self.meter)
        trial.limits = dict(self.limits)
        share = Limit(scope, name, use=Use() if before is None else before.use)
        share.share = self.meter.parts_of_whole(ratio)
        share.booked = team if scope == "analyst" else None
        fresh = before is None or before.share is None
        share.shared_since = -1 if fresh or before is None else before.shared_since
        trial.limits[scope, name] = share
        return trial

    def cut_shares(self, spent: Amounts, sequence: int) -> Fields:
        """Cut what a release elsewhere leaves no room for: the newest record's share first.

        A share within its team's, which reserves nothing beside that, waits for it.
        """
        shares = [limit for limit in self.in_force() if limit.share is not None]
        shares.sort(key=lambda limit: -limit.sequence)
        found: dict[tuple[str, str], Fields] = {}
        missing, moved = self._missing(spent), True
        while any(missing.values()) and moved:
            moved = False
            for limit in shares:
                missing = self._missing(spent)
                spare, whole = limit.spare(), limit.share or {}
                amounts = {n: math.ceil(min(spare[n], missing[n])) for n in whole}
                if not any(amounts.values()):
                    continue
                withheld = self.all_withheld()
                limit.share = {n: most - amounts[n] for n, most in whole.items()}
                now = self.all_withheld()
                if not any(missing[n] and now[n] < withheld[n] for n in whole):
                    limit.share = whole
                    continue
                moved = True
                limit.use.sequence = limit.cut_by = sequence
                limit.cut = {n: limit.cut.get(n, 0) + each for n, each in amounts.items()}
                key = limit.scope, limit.name
                own = found.setdefault(key, {"limit": limit, "cut": dict.fromkeys(whole, 0)})
                own["cut"] = {n: each + amounts[n] for n, each in own["cut"].items()}
            missing = self._missing(spent)
        named = [
            {
                **each["limit"].head,
                "version": each["limit"].version,
                "cut": texts(each["cut"]),
                "left": down(each["limit"].spare()),
            }
            for each in found.values()
        ]
        more = {"more_shares_cut": len(named) - 50} if len(named) > 50 else {}
        return {**({"shares_cut": named[:50]} if named else {}), **more}

    def _missing(self, spent: Amounts) -> Amounts:
        withheld = self.all_withheld()
        if not any(withheld.values()):
            return dict.fromkeys(self.meter.sums, 0)
        limits = self.meter.limits
        return {n: max(0, spent[n] + withheld[n] - limits[n]) for n in self.meter.sums}

    def take(self, body: Fields, team: str | None, at: int, said: Fields, sequence: int) -> Fields:
        """Apply a record; return the fields of its decision."""
        scope, name = body["scope"], body.get("name") or ""
        limit = self.limits.setdefault((scope, name), Limit(scope, name))
        limit.sequence = limit.use.sequence = sequence
        part, policy, pace, share = (body.get(each) for each in SAYS)
        before = limit.share
        limit.removed()
        fields = limit.fields
        if part is not None:
            limit.meter, limit.capacity = self.meter, self.meter.parts_of_whole(part)
            fields |= {"part": part, "budget": texts(limit.capacity)}
        if policy is not None:
            full = resolved(policy)
            stated = {key for key, value in policy.items() if value is not None}
            stated |= {"filter", "delta_for_claims"}
            fields["policy"] = {key: value for key, value in full.items() if key in stated}
            fields["budget"] = said.get("limit", {}).get("budget", {})
            agree("budget", fields["budget"], budget_of(json.dumps(full)), (scope, name))
            limit.capacity = read(fields["budget"])
            limit.meter = type(self.meter)(full, limit.capacity)
        if limit.meter is not None and limit.meter.kind != limit.kind:
            limit.kind, limit.counted_since = limit.meter.kind, limit.version
        if pace is not None:
            limit.pace, limit.period = self.meter.parts_of_whole(pace["part"]), pace["period"]
            fields["pace"] = {"part": pace["part"], "period": pace["period"]}
            fields["pace"]["budget"] = texts(limit.pace)
            limit.periods.say(pace["period"], at)
        if share is not None:
            limit.share = self.meter.parts_of_whole(share)
            fields["reserved"] = {"part": share, "budget": texts(limit.share)}
            if scope == "analyst" and team is not None:
                limit.booked = fields["reserved"]["team"] = team
            if before is None:
                limit.shared_since = limit.version
        if body.get("until") is not None:
            fields["until"], limit.until = body["until"], millis(body["until"])
        return fields


def _days(period: str | None) -> int:
    assert period is not None
    return int(period[1:-1])
