"""The records of owners: what each may have, and what it does. docs/reference/records/admin.md."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tests.faults.oracle import halves
from tests.faults.oracle.approvals import answer
from tests.faults.oracle.asks import is_reason, is_role, is_wanted, mismatched
from tests.faults.oracle.claims import is_whole_claim
from tests.faults.oracle.disagreement import agree
from tests.faults.oracle.expected import Fields
from tests.faults.oracle.generations import beyond_at_first, is_lifetime, of_another_group
from tests.faults.oracle.limit_fields import LIMIT_RULES, at_odds
from tests.faults.oracle.limits import Limit
from tests.faults.oracle.members import (
    MEMBER_RULES,
    are_owners,
    contradicted,
    is_access,
    is_visibility,
)
from tests.faults.oracle.meter import Meter
from tests.faults.oracle.policies import (
    PARAMETERS,
    broken_policy,
    is_approve_within,
    is_horizon,
    is_per_holder,
    is_ratio,
    promises_more,
    ratios_are_broken,
    resolved,
)
from tests.faults.oracle.reservations import is_grant
from tests.faults.oracle.steps import decide_resolve
from tests.faults.oracle.texts import at_text, is_id, is_name, is_short, is_time, issued, millis
from tests.faults.oracle.thresholds import reached
from tests.faults.oracle.worth import is_sampled

if TYPE_CHECKING:
    from tests.faults.oracle.dataset import Dataset, Verdict

Rules = dict[str, Callable[[Any], bool]]
"""The rule of each field, by its name."""
ANSWERING: Final = ("member", "limit", "budget", "decline")
MOST_PAUSES: Final = 100
_STAYS: Final = (
    *("access", "visibility", "population", "open_per_holder", "approve_above", "approve_within"),
)


class OwnersRecord(NamedTuple):
    """One kind of record of owners.

    Attributes:
        decide: what it does to a dataset that it may change.
        needed, optional: the rules of its fields, beside those of every record.
        odd: returns the fields that do not match each other.
        follows: it may name the decision that it follows.
        is_administered: an administrator may send it.
        after_closing: it is decided on a closed dataset, too.
    """

    decide: Callable[[Dataset, Fields, Fields, int], Verdict]
    needed: Rules = {}  # noqa: RUF012 (of a tuple, never changed)
    optional: Rules = {}  # noqa: RUF012
    odd: Callable[[Fields], set[str]] = lambda _: set()
    follows: bool = True
    is_administered: bool = False
    after_closing: bool = False

    @property
    def all_needed(self) -> Rules:
        """The rules of the fields that a record must have, beside those of every sender."""
        return {"by": is_name, **self.needed}

    @property
    def all_optional(self) -> Rules:
        """The rules of the fields that it may have."""
        return {
            **({} if "reason" in self.needed else {"reason": is_short}),
            **({"follows": _is_sequence} if self.follows else {}),
            **({"as": lambda v: v in (None, "administrator")} if self.is_administered else {}),
            **self.optional,
        }


def govern(dataset: Dataset, record: Fields, said: Fields, at: int) -> Verdict:
    """Decide an admin request on a dataset that is open."""
    kind = OWNERS[record["type"]]
    if record["type"] == "open":
        return kind.decide(dataset, record, said, at)
    members = dataset.members
    may = members.may_govern(record, at) or members.may_lead(record, dataset.access, at)
    if record["type"] == "more":
        may = dataset.asks.may_ask(record, members, dataset.access, at)
    if not may:
        return "refused", "not_permitted", {}
    is_late = record.get("follows") not in (None, dataset.sequence)
    answers = record["type"] in ANSWERING and not is_late
    if answers and (reason := dataset.asks.why_not(record)) is not None:
        return "refused", reason, {}
    if dataset.closed and not kind.after_closing:
        return "refused", "closed", {}
    if record.get("follows") not in (None, dataset.sequence):
        return "refused", "out_of_date", {}
    outcome, reason, fields = kind.decide(dataset, record, said, at)
    if record["type"] in ANSWERING and reason is None:
        fields = {**fields, **dataset.asks.answer(record, dataset.sequence + 1, at)}
    return outcome, reason, fields


def _ask(dataset: Dataset, record: Fields, _: Fields, at: int) -> Verdict:
    role, by, budget = record.get("role"), record["by"], record.get("budget")
    paused = dataset.pause_of({"analyst": by})
    if paused is not None and dataset.facts["paused"]:
        return "refused", "paused", {}
    if paused is not None:
        return "refused", "person_paused", {"pause": paused}
    is_open = role == "analyst" and dataset.access != "members"
    if role is not None and (is_open or dataset.members.has(by, role, at)):
        return "refused", "has_role", {}
    if record["wants"] == "budget" and _amount_below(dataset.policy, budget or {}) is None:
        return "refused", "above_ceiling", {}
    if not dataset.asks.has_room(by):
        return "refused", "too_many_asks", {}
    dataset.asks.take(record, dataset.sequence + 1, at)
    return "more_asked", None, {}


def _decline(*_: Any) -> Verdict:
    return "more_declined", None, {}


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_sequence(value: Any) -> bool:
    return value is None or _is_whole(value)


def _or_none(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or check(value)


def _open(*_: Any) -> Verdict:
    return "refused", "already_opened", {}


def _released_later(record: Fields) -> set[str]:
    """Return the time of a release that is later than the record of it."""
    released, made = record.get("released_at"), record.get("request_id")
    if not is_time(released) or not is_id(made):
        return set()
    return {"released_at"} if released > at_text(issued(made)) else set()


def _close(dataset: Dataset, _: Fields, __: Fields, at: int) -> Verdict:
    close(dataset, at)
    return "closed", None, {}


def close(dataset: Dataset, at: int) -> None:
    """Close a dataset."""
    dataset.closed, dataset.facts["paused"] = True, False
    if "population" in dataset.policy:
        dataset.facts["closed_at"] = at


def _amend(dataset: Dataset, record: Fields, said: Fields, at: int) -> Verdict:
    if record.get("policy") is not None:
        return _lower(dataset, resolved(record["policy"]), said)
    changed = {name: record[name] for name in _AMENDED if record.get(name) is not None}
    before = dataset.policy["alert_at"]
    reported = before[: dataset.crossed]
    dataset.policy = {**dataset.policy, **changed}
    if changed.get("open_per_holder") == 0:
        del dataset.policy["open_per_holder"]
    fields = {**_amended(dataset, reported), **dataset.terms()}
    same = dataset.policy["alert_at"] == before
    limits = [] if same else list(dataset.division.limits.values())
    return "amended", None, {**fields, **_reached(dataset, limits, at)}


def _beside_policy(record: Fields) -> set[str]:
    """Return the changes that a record names beside a policy, which has them all."""
    if record.get("policy") is None:
        return set()
    return {name for name in _AMENDED if record.get(name) is not None}


def _within_alone(record: Fields) -> set[str]:
    """Return how long a request may wait, where a record does not say which one."""
    named = [record.get(name) is not None for name in ("approve_within", "approve_above")]
    return {"approve_within"} if named == [True, False] else set()


def _amended(dataset: Dataset, reported: list[str]) -> Fields:
    """Count what is reached under new thresholds; return the fields about new ones.

    Args:
        reported: the ratios that decisions have reported so far.
    """
    alerts, now = dataset.policy["alert_at"], dataset.crossed_now()
    highest = max(map(Fraction, reported), default=Fraction(0))
    dataset.crossed = max(now, sum(Fraction(ratio) <= highest for ratio in alerts))
    return dataset.reached_first([ratio for ratio in alerts[:now] if ratio not in reported])


def _reached(dataset: Dataset, limits: list[Limit], at: int) -> Fields:
    alerts = dataset.policy["alert_at"]
    team = partial(dataset.members.team, at=at)
    return reached(dataset.division, limits, team, alerts, dataset.sequence + 1)


def _lower(dataset: Dataset, wanted: Fields, said: Fields) -> Verdict:
    before = dataset.policy
    unchanged = {n: before[n] for n in _STAYS if n in before}
    wanted = {**unchanged, **wanted}
    if dataset.mechanisms or any(dataset.totals.values()):
        return "refused", "already_granted", {}
    if dataset.division.all_set():
        return "refused", "has_limits", {}
    same = all(
        before.get(name) == wanted.get(name)
        for name in ("filter", "beside", "unit", "neighbours", "population", *PARAMETERS)
    )
    if not same or _is_added(dataset) or promises_more(wanted, before):
        return "refused", "not_lower", {}
    in_force = dataset.facts["in_force"]
    if in_force is not None:
        given = {name: in_force[name] for name in in_force if name != "budget"}
        if _amount_below(wanted, given) is None:
            return "refused", "not_lower", {}
    limits = dataset.capacity.values()
    if any(low > limit for (low, _), limit in zip(halves.capacities(wanted), limits, strict=True)):
        return "refused", "not_lower", {}
    if said["outcome"] != "amended":
        return "amended", None, {}
    capacity, divided = dataset.capacity, dataset.division.limits
    dataset.take_policy(wanted, said.get("budget", {}))
    dataset.limit_to(in_force)
    dataset.division.limits = divided
    is_lower = all(now <= capacity[name] for name, now in dataset.capacity.items())
    agree("budget", is_lower, True, dataset.name)
    fields = _amended(dataset, before["alert_at"][: dataset.crossed])
    return "amended", None, {**fields, **dataset.terms()}


def _is_added(dataset: Dataset) -> bool:
    """Return whether a guarantee is added to those of other datasets."""
    return "population" in dataset.policy or dataset.facts["lifetime"] is not None


def _brake(dataset: Dataset, record: Fields, _: Fields, __: int) -> Verdict:
    pauses = record["type"] == "pause"
    if pauses == dataset.facts["paused"]:
        return "refused", "already_paused" if pauses else "not_paused", {}
    dataset.facts["paused"] = pauses
    return "paused" if pauses else "resumed", None, _by_administrator(record)


def _pause_person(dataset: Dataset, record: Fields, _: Fields, at: int) -> Verdict:
    pauses, target = dataset.facts["person_pauses"], _target(record)
    if any(target.items() <= each.items() for each in pauses):
        return "refused", "person_already_paused", {}
    if len(pauses) >= MOST_PAUSES:
        return "refused", "too_many_paused", {}
    said = {"by": record["by"], "reason": record["reason"], "since": at_text(at)}
    pause = {**target, **said, **_by_administrator(record)}
    dataset.facts["person_pauses"] = [*pauses, pause]
    return "member_paused", None, {"pause": pause, **_by_administrator(record)}


def _resume_person(dataset: Dataset, record: Fields, _: Fields, __: int) -> Verdict:
    pauses, target = dataset.facts["person_pauses"], _target(record)
    ended = [each for each in pauses if target.items() <= each.items()]
    if not ended:
        return "refused", "person_not_paused", {}
    dataset.facts["person_pauses"] = [each for each in pauses if each not in ended]
    return "member_resumed", None, {"pause": ended[0], **_by_administrator(record)}


def _target(record: Fields) -> Fields:
    """Return the person or the team that a record names."""
    return {n: record[n] for n in ("member", "team") if record.get(n) is not None}


def _not_one_of_two(record: Fields) -> set[str]:
    """Return the person, where a record names a team too, or nobody."""
    return set() if len(_target(record)) == 1 else {"member"}


def _label(dataset: Dataset, record: Fields, _: Fields, __: int) -> Verdict:
    dataset.facts["label"] = record["label"]
    return "label_set" if record["label"] else "label_removed", None, {}


def _remark(dataset: Dataset, record: Fields, _: Fields, __: int) -> Verdict:
    # The remark has the next number, and is on none but an earlier decision.
    if record["decision"] not in range(1, dataset.sequence + 1):
        return "refused", "unknown_decision", {}
    return "remarked", None, {}


def _record(dataset: Dataset, record: Fields, said: Fields, _: int) -> Verdict:
    return dataset.record(record, said)


def _budget(dataset: Dataset, record: Fields, said: Fields, _: int) -> Verdict:
    budget = _amount_below(dataset.policy, record["budget"])
    if budget is None:
        return "refused", "above_ceiling", {}
    meter = dataset.division.meter
    reported, fact = dataset.crossed, dataset.facts["in_force"]
    if said["outcome"] != "budget_set":
        # What it would allow is in no record of a refusal; its own ranges say enough.
        ranges = zip(dataset.sums, halves.capacities({**dataset.policy, **budget}), strict=True)
        limits = {n: min(dataset.capacity[n], low) for n, (low, _) in ranges}
        over = _breaks_shares(dataset, limits)
        return ("refused", "over_reserved", {}) if over else ("budget_set", None, {})
    fields = dataset.take_in_force(budget, said)
    limits, dataset.division.meter = dataset.division.meter.limits, meter
    if _breaks_shares(dataset, limits):
        dataset.facts["in_force"] = fact
        return "refused", "over_reserved", {}
    dataset.division.meter = meter.below(limits)
    alerts, part = dataset.policy["alert_at"], dataset.spent_part()
    dataset.exhausted = part >= 1
    dataset.crossed = sum(Fraction(ratio) <= part for ratio in alerts)
    newly = dataset.reached_first(alerts[reported : dataset.crossed])
    return "budget_set", None, {**newly, **fields}


def _breaks_shares(dataset: Dataset, limits: Fields) -> bool:
    """Return whether a smaller budget in force would not hold what is withheld for shares."""
    before, withheld = dataset.division.meter.limits, dataset.division.all_withheld()
    smaller = any(limits[name] < before[name] for name in before)
    return (
        smaller
        and any(withheld.values())
        and any(dataset.totals[name] + withheld[name] > most for name, most in limits.items())
    )


def is_budget_in_force(value: Any) -> bool:
    """Return whether a value is one amount of a budget."""
    if not isinstance(value, dict) or value.keys() - {"epsilon", "rho"}:
        return False
    given = {name: each for name, each in value.items() if each is not None}
    if len(given) != 1:
        return False
    (name,) = given
    policy = {"filter": "basic" if name == "epsilon" else "zcdp", **given}
    return isinstance(given[name], str) and not broken_policy(policy)


def _is_spent(value: Any) -> bool:
    """Return whether a value says what was released before an opening."""
    if not isinstance(value, dict) or value.keys() - {"claim", "evidence", "fixed_before"}:
        return False
    evidence = value.get("evidence")
    fixed = isinstance(value.get("fixed_before", False), bool)
    return is_short(evidence) and bool(evidence) and fixed and is_whole_claim(value.get("claim"))


def _takes_first(policy: Fields, claim: Fields) -> bool:
    """Return whether a filter of which nothing is used admits a claim."""
    if is_sampled(claim) and policy["neighbours"] != "add_remove":
        return False
    lows = (low for low, _ in halves.capacities(policy))
    meter = Meter(policy, dict(zip(halves.sums(policy), lows, strict=True)))
    return meter.charged(meter.whole, meter.nothing(), json.dumps(claim)) is not None


def _misfit(record: Fields) -> set[str]:
    """Return what of an opening its policy has no room for: its budget, or what was spent."""
    found = _below_ceiling(record)
    spent, policy = record.get("spent"), record.get("policy")
    if not _is_spent(spent) or not isinstance(policy, dict) or broken_policy(policy):
        return found
    full = resolved(policy)
    if "population" in full or not _takes_first(full, spent["claim"]):
        found.add("spent")
    return found


def _below_ceiling(record: Fields) -> set[str]:
    """Return the budget in force of an opening, where its policy is no ceiling of it."""
    budget, policy = record.get("budget"), record.get("policy")
    if not is_budget_in_force(budget) or not isinstance(policy, dict) or broken_policy(policy):
        return set()
    return set() if _amount_below(policy, budget) else {"budget"}


def _renewed_as_itself(record: Fields) -> set[str]:
    return {"renewed_as"} if record.get("renewed_as") == record.get("dataset") else set()


def _amount_below(policy: Fields, budget: Fields) -> Fields | None:
    """Return a budget in force without what it leaves out; None if it is not below a policy's."""
    given = {name: each for name, each in budget.items() if each is not None}
    (name,) = given
    ceiling = policy.get(name)
    fits = ceiling is not None and Fraction(given[name]) <= Fraction(ceiling)
    return given if fits and not broken_policy({**policy, **given}) else None


def _by_administrator(record: Fields) -> Fields:
    return {"administrator": True} if record.get("as") == "administrator" else {}


def _is_beyond(dataset: Dataset, record: Fields, lead: str, at: int) -> bool:
    """Return whether a lead removes somebody from a paused team, or adds what began elsewhere."""
    name = record["member"]
    if name in dataset.members.all:
        pauses = dataset.facts["person_pauses"]
        return record["roles"] == [] and any(each.get("team") == lead for each in pauses)
    now, resets = max(at, dataset.changed_at), dataset.clock.resets
    waiting = [each for each in dataset.approvals.rows.values() if each.waits(now, resets)]
    open_ = dataset.reservations.open.values()
    held = {each.request.get(field) for each in open_ for field in ("analyst", "via")}
    own = dataset.division.share_of("analyst", name)
    is_elsewhere = own is not None and own.booked != lead
    return is_elsewhere or name in held or name in {each.request["analyst"] for each in waiting}


def _member(dataset: Dataset, record: Fields, _: Fields, at: int) -> Verdict:
    reason, lead = dataset.members.refusal(record), dataset.members.team_led(record, at)
    if reason is None and record.get("until") and millis(record["until"]) <= at:
        reason = "end_in_past"
    if reason is None and lead is not None and _is_beyond(dataset, record, lead, at):
        reason = "beyond_team"
    if reason is not None:
        return "refused", reason, {}
    fields: Fields = {"member": dataset.members.take(record, dataset.sequence + 1)}
    outcome = "member_set" if record["roles"] else "member_removed"
    return outcome, None, {**fields, **_by_administrator(record)}


def _limit(dataset: Dataset, record: Fields, said: Fields, at: int) -> Verdict:
    name = record.get("name") if record["scope"] == "analyst" else None
    team = dataset.members.team(name, at) if name else None
    lead = dataset.members.team_led(record, at)
    reason = dataset.division.refusal(record, team, dataset.totals, at, lead)
    if reason is not None:
        return "refused", reason, {}
    fields = dataset.division.take(record, team, at, said, dataset.sequence + 1)
    outcome = "limit_set" if len(fields.keys() - {"scope", "name", "version"}) else "limit_removed"
    limit = dataset.division.limits[record["scope"], record.get("name") or ""]
    return outcome, None, {"limit": fields, **_reached(dataset, [limit], at)}


def _one_of_two(record: Fields) -> set[str]:
    """Return the claim, where a resolution has both a claim and a mistake, or neither."""
    return {"claim"} if (record.get("claim") is None) == (record.get("mistaken") is None) else set()


_AMENDED: Final[Rules] = {
    "alert_at": _or_none(lambda v: not ratios_are_broken(v)),
    "horizon": _or_none(is_horizon),
    "most_per_request": _or_none(is_ratio),
    "access": _or_none(is_access),
    "visibility": _or_none(is_visibility),
    "open_per_holder": _or_none(lambda v: is_per_holder(v) or (type(v) is int and v == 0)),
    "approve_above": _or_none(is_ratio),
    "approve_within": _or_none(is_approve_within),
}
OWNERS: Final = {
    "open": OwnersRecord(
        _open,
        needed={"policy": lambda v: not broken_policy(v)},
        optional={
            "owners": are_owners,
            "budget": is_budget_in_force,
            "lifetime": is_lifetime,
            "spent": _is_spent,
        },
        odd=lambda record: (
            _misfit(record) | beyond_at_first(record) | of_another_group(record, "dataset")
        ),
        follows=False,
    ),
    "renew": OwnersRecord(
        _open,  # over two datasets: `partition` decides it
        needed={"policy": lambda v: not broken_policy(v), "renewed_as": is_name},
        optional={"owners": are_owners, "budget": is_budget_in_force},
        odd=lambda record: (
            _below_ceiling(record)
            | _renewed_as_itself(record)
            | of_another_group(record, "renewed_as")
        ),
        after_closing=True,
    ),
    "amend": OwnersRecord(
        _amend,
        optional={"policy": _or_none(lambda v: not broken_policy(v)), **_AMENDED},
        odd=lambda record: _beside_policy(record) | _within_alone(record),
    ),
    "close": OwnersRecord(_close),
    "pause": OwnersRecord(_brake, is_administered=True),
    "resume": OwnersRecord(_brake, is_administered=True),
    "label": OwnersRecord(_label, needed={"label": is_short}, after_closing=True),
    "remark": OwnersRecord(
        _remark,
        needed={"decision": _is_whole, "remark": lambda v: is_short(v) and bool(v)},
        after_closing=True,
    ),
    "record": OwnersRecord(
        _record,
        needed={
            "claim": is_whole_claim,
            "released_at": lambda v: MEMBER_RULES["until"](v) and v is not None,
            "evidence": lambda v: is_short(v) and bool(v),
        },
        optional={
            "team": _or_none(is_name),
            "evidence_hash": _or_none(is_grant),
        },
        odd=_released_later,
        after_closing=True,
    ),
    "more": OwnersRecord(
        _ask,
        needed={"wants": is_wanted, "reason": is_reason},
        optional={
            "role": is_role,
            "part": _or_none(is_ratio),
            "budget": is_budget_in_force,
            "team": _or_none(is_name),
            "nonce": is_short,
        },
        odd=mismatched,
    ),
    "decline": OwnersRecord(
        _decline,
        needed={"ask": _is_whole, "asker": is_name, "reason": is_reason},
        after_closing=True,
    ),
    "budget": OwnersRecord(
        _budget,
        needed={"budget": is_budget_in_force},
        optional={"answers": _is_sequence},
    ),
    "resolve": OwnersRecord(
        decide_resolve,
        needed={"grant": is_grant},
        optional={
            "claim": _or_none(is_whole_claim),
            "mistaken": _or_none(lambda v: is_short(v) and bool(v)),
        },
        odd=_one_of_two,
        after_closing=True,
    ),
    "approve": OwnersRecord(
        answer, needed={"pending": is_grant}, follows=False, after_closing=True
    ),
    "deny": OwnersRecord(answer, needed={"pending": is_grant}, follows=False, after_closing=True),
    "member": OwnersRecord(
        _member,
        needed={name: MEMBER_RULES[name] for name in ("member", "roles")},
        optional={
            "answers": _is_sequence,
            **{name: MEMBER_RULES[name] for name in ("team", "until")},
        },
        odd=contradicted,
        is_administered=True,
        after_closing=True,
    ),
    "pause_member": OwnersRecord(
        _pause_person,
        needed={"reason": lambda v: is_short(v) and bool(v)},
        optional={"member": _or_none(is_name), "team": _or_none(is_name)},
        odd=_not_one_of_two,
        is_administered=True,
    ),
    "resume_member": OwnersRecord(
        _resume_person,
        optional={"member": _or_none(is_name), "team": _or_none(is_name)},
        odd=_not_one_of_two,
        is_administered=True,
    ),
    "limit": OwnersRecord(
        _limit,
        needed={"scope": LIMIT_RULES["scope"]},
        optional={
            "answers": _is_sequence,
            **{name: LIMIT_RULES[name] for name in LIMIT_RULES if name != "scope"},
        },
        odd=at_odds,
    ),
}
"""By type."""
