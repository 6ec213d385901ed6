"""One dataset as far as limits, pace and reserved shares matter, decided by the documents."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

from tests.accountant.partition.limits_numbers import ExactMeter
from tests.accountant.partition.members_model import ROLES, time_of
from tests.faults.oracle.disagreement import agree
from tests.faults.oracle.division import Division
from tests.faults.oracle.expected import Fields
from tests.faults.oracle.fits import Fits
from tests.faults.oracle.levels import Levels, as_json
from tests.faults.oracle.limits import Clock, Limit
from tests.faults.oracle.meter import Amounts, budget_of, read
from tests.faults.oracle.policies import promises_more, resolved
from tests.faults.oracle.thresholds import reached
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
        self.closed = self.paused = self.halted = self.granted = False
        self.members: dict[str, Fields] = {owner: {"roles": ["owner"], "sequence": 1}}
        self.take_policy(resolved(policy), budget)

    def take_policy(self, policy: Body, budget: dict[str, str]) -> None:
        self.policy = policy
        agree("budget", budget, budget_of(json.dumps(policy)))
        self.meter = ExactMeter(policy, read(budget))
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
        for word, is_so in (
            *(("closed", self.closed), ("paused", self.paused), ("halted", self.halted)),
        ):
            if is_so:
                return {"reason": word}
        if (body["unit"], body["neighbours"]) != (self.policy["unit"], self.policy["neighbours"]):
            return {"reason": "unit_mismatch"}
        team = self.member(analyst, at).get("team")
        levels = Levels(self.division, self.spent, analyst, team, clock)
        return self._ask(as_json(body["claim"]), levels)

    def _ask(self, claim: str, levels: Levels) -> Fields:
        whole = self.meter.whole
        if not self.meter.accepts(claim):
            return {"reason": "claim_not_accepted"}
        fits = FitsEverywhere(
            self.policy, whole, self.spent, json.loads(claim),
            lambda like: self._admits(like, levels),
        )  # fmt: skip
        if self.is_above_cap(claim):
            return {"reason": "above_cap", "fits": fits}
        after = self.meter.charged(whole, self.spent, claim)
        if after is None:
            self.halted = self.halted or bool(self.policy.get("halt_on_refusal"))
            offer = {} if self.halted else {"fits": fits}
            return {"reason": "exhausted", **levels.left_at(), **offer}
        reason, more = levels.refusal(claim)
        if reason is not None:
            offer = {"fits": fits} if reason == "exhausted" else {}
            return {"reason": reason, **more, **offer}
        reported = levels.charge(claim, [], self.policy["alert_at"], self.sequence + 1)
        self.spent, self.granted = after, True
        return reported

    def is_above_cap(self, claim: str) -> bool:
        cap = Fraction(self.policy.get("most_per_request", "1"))
        if cap >= 1:
            return False
        alone = self.meter.charged(self.meter.whole, self.meter.nothing(), claim)
        return alone is None or self.meter.part(self.meter.whole, alone) > cap

    def _admits(self, claim: str, levels: Levels) -> bool:
        """Tell whether a claim would be granted, as far as sums say."""
        if not self.meter.accepts(claim) or self.is_above_cap(claim):
            return False
        if self.meter.charged(self.meter.whole, self.spent, claim) is None:
            return False
        return levels.admit(claim)

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
        if kind in {"pause", "resume"}:
            if self.paused == (kind == "pause"):
                return {"reason": "already_paused" if self.paused else "not_paused"}
            self.paused = kind == "pause"
            return {"outcome": f"{kind}d"}
        if kind == "close":
            self.closed, self.paused = True, False
            return {"outcome": "closed"}
        if "policy" in body:
            return self._lower(body["policy"], said)
        limits = (
            [] if body["alert_at"] == self.policy["alert_at"] else self.division.limits.values()
        )
        self.policy["alert_at"] = body["alert_at"]
        return {"outcome": "amended", **self._reached(limits, clock)}

    def _reached(self, limits: Iterable[Limit], clock: Clock) -> Fields:
        def team(analyst: str) -> str | None:
            name: str | None = self.member(analyst, clock.at).get("team")
            return name

        alerts: list[str] = self.policy["alert_at"]
        return reached(self.division, limits, team, alerts, self.sequence + 1)

    def _lower(self, policy: Body, said: Fields) -> Fields:
        if self.granted:
            return {"reason": "already_granted"}
        if self.division.in_force():
            return {"reason": "has_limits"}
        full = resolved(policy)
        if promises_more(full, self.policy):
            return {"reason": "not_lower"}
        rows = self.division.limits
        self.take_policy(full, said["budget"])
        self.division.limits = rows
        return {"outcome": "amended"}

    def _limit(self, body: Body, clock: Clock, said: Fields) -> Fields:
        name = body.get("name") or ""
        team = self.member(name, clock.at).get("team") if body["scope"] == "analyst" else None
        reason = self.division.refusal(body, team, self.spent)
        if reason is not None:
            return {"reason": reason}
        reported = self.division.take(body, team, clock.at, said, self.sequence + 1)
        limit = self.division.limits[body["scope"], name]
        outcome = "limit_set" if limit.in_force else "limit_removed"
        return {"outcome": outcome, "limit": reported, **self._reached([limit], clock)}

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
        return is_claim(claim, 0) and self._everywhere(as_json(claim))
