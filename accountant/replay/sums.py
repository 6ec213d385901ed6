"""Checks of the log's own numbers that hold under any rules: order, sums, budgets.

Nothing here decides a request or prices a claim; `audit` does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from operator import gt
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET

from accountant.amounts import Units, format_units, parse_units
from accountant.dataset_ledger import DatasetLedger
from accountant.fractional import round_up_amounts
from accountant.ledger.administer import set_in_force
from accountant.ledger.shared_lifetimes import datasets_of, latest_sum, lifetime_to_join
from accountant.ledger.snapshots import format_reading, rounded_up_wire, totals_from
from accountant.partition import Partition
from accountant.policy import Policy
from accountant.policy.compiled_policy import CompiledPolicy, below, stored_plan
from accountant.policy.lifetime import (
    StoredLifetime,
    continues,
    exceeds,
    first_generation,
    next_generation,
)
from accountant.records import Decision
from accountant.records.outcomes import Outcome, Reason
from accountant.records.parts import by_dataset
from accountant.records.person_pauses import pause_of
from accountant.replay.plain_text import plain
from accountant.times import from_iso, iso

ROUNDING: Final = Decimal("1e-9")
"""The largest relative difference of odometers: they are floats, and logarithms differ between
machines in the last place. Everything else is exact."""

_NOT_NUMBERED: Final = frozenset(
    {
        *(Reason.UNKNOWN_DATASET, Reason.OVERLOADED, Reason.NOT_TOGETHER, Reason.NOT_RENEWABLE),
        *(Reason.POPULATION_IN_USE, Reason.OUTSIDE_LIFETIME),
    }
)
_WITHOUT_REQUEST: Final = frozenset(
    {Reason.UNDECODABLE, Reason.OVERSIZE, Reason.INVALID_FIELD, Reason.INTERNAL_ERROR}
)
_OF_A_LEDGER: Final = (
    *("generation", "cost", "asked", "totals", "rounded_up", "left", "odometers", "policy"),
)


class Finding(NamedTuple):
    """One wrong field of a record."""

    what: str
    expected: str
    found: str


Findings = Iterator[Finding]


def check_record(partition: Partition, decision: Decision, *, gapless: bool = False) -> Findings:
    """Yield the findings about the next decision, given the state before it.

    Args:
        gapless: offsets of inputs have no gaps.
    """
    if decision.outcome.by_operator:
        yield from _check_operator_record(partition, decision)
        return
    yield from _check_order(partition, decision, gapless=gapless)
    yield from same("note", None, decision.note)
    yield from same("seal", None, decision.seal)
    yield from same("rollback", None, decision.rollback)
    yield from same("key_change", None, decision.key_change)
    yield from same("part_of", None, decision.part_of)
    if decision.parts:
        yield from _check_charges_nothing(_without_opening(decision))
        yield from same("dataset", None, decision.dataset)
        yield from same("levels", (), decision.levels)
    yield from _check_generations(partition, decision)
    yield from _check_approval(partition, decision)
    for part in by_dataset(decision):
        yield from _check_members(part)
        yield from _check_scopes(part)
        if part.outcome.is_numbered and part.reason not in _NOT_NUMBERED:
            ledger = partition.ledgers.get(str(part.dataset))
            yield from _check_numbered(ledger, part)
        else:
            yield from _check_charges_nothing(part)
    if not bytes(decision.request) and decision.reason not in _WITHOUT_REQUEST:
        yield Finding("request", "the request that was decided", "nothing")


def _without_opening(decision: Decision) -> Decision:
    """Return a decision over several datasets without the policy that a renewal opens with."""
    if decision.outcome is not Outcome.RENEWED:
        return decision
    return msgspec.structs.replace(decision, policy=None)


def _check_generations(partition: Partition, decision: Decision) -> Findings:
    """Yield where a lifetime is not charged what its generations guarantee, or is exceeded."""
    parts = by_dataset(decision)
    if (decision.outcome is Outcome.RENEWED) != (len(parts) == 2 and parts[1].outcome.opens):
        yield Finding("parts", "a dataset and its next generation", plain(decision.parts))
        return
    opened = parts[-1]
    if not opened.outcome.opens:
        yield from same("lifetime", None, decision.lifetime)
        return
    if opened.policy is None:
        return
    before, lifetime = None, opened.lifetime
    if decision.outcome is Outcome.RENEWED:
        before = partition.ledgers.get(str(parts[0].dataset))
        stored = UNSET if before is None else before.facts.lifetime
        if before is None or stored is UNSET or before.facts.renewed_as:
            yield Finding("outcome", "the latest generation of a lifetime", str(parts[0].dataset))
            return
        latest = latest_sum(partition.ledgers.values(), stored)
        yield from _check_charge(latest, opened, before.plan.policy)
    elif joined := lifetime_to_join(others := _of_population(partition, opened.policy)):
        yield from _check_charge(joined, opened, others[0].plan.policy)
    elif lifetime is not None:
        due = first_generation(lifetime, str(opened.dataset), opened.policy)
        yield from same("lifetime", due, lifetime)
        if exceeds(lifetime):
            yield Finding("lifetime.spent", "at most the lifetime", plain(lifetime.spent))
    generation = 1 if before is None else before.generation + 1
    yield from same("generation", generation, opened.generation)


def _of_population(partition: Partition, policy: Policy) -> list[DatasetLedger]:
    if policy.population is UNSET:
        return []
    return datasets_of(partition.ledgers.values(), policy.population)


def _check_charge(before: StoredLifetime, opened: Decision, policy: Policy) -> Findings:
    """Yield where a dataset does not take what it guarantees from a lifetime that others began.

    Args:
        policy: of one of the others.
    """
    assert opened.policy is not None
    if not continues(policy, before, opened.policy):
        yield Finding("policy", "the people of its lifetime", plain(opened.policy))
    due = next_generation(before, opened.policy)
    if due is None:
        yield Finding("lifetime.spent", "at most the lifetime", plain(before.spent))
    yield from same("lifetime", due, opened.lifetime)


def same(what: str, expected: object, found: object) -> Findings:
    """Yield a finding unless the two are equal."""
    if expected != found:
        yield Finding(what, plain(expected), plain(found))


def _check_operator_record(partition: Partition, decision: Decision) -> Findings:
    """Yield the findings about a decision that a command wrote: nothing decides it again."""
    at, watermark = from_iso(decision.decided_at), from_iso(decision.floor)
    due = partition.floor
    if decision.outcome.resets_clock:
        due = at + partition.genesis.skew_ms
        if at >= partition.decided_at:
            yield Finding("decided_at", f"before {partition.decided_at} ms", decision.decided_at)
    elif at < partition.decided_at:
        yield Finding("decided_at", f"at least {partition.decided_at} ms", decision.decided_at)
    if watermark != due:
        yield Finding("floor", f"{due} ms", decision.floor)
    yield from _check_rollback(partition, decision)
    yield from _check_key_change(partition, decision)
    if decision.outcome is not Outcome.SEALED:
        yield from same("seal", None, decision.seal)
    if not decision.note:
        yield Finding("note", "why it was written", "nothing")
    yield from _check_charges_nothing(decision)
    for field in ("dataset", "reason", "error", "first", "fits", "budget", "source", "refused_by"):
        yield from same(field, None, getattr(decision, field))
    yield from same("request", b"", bytes(decision.request))
    yield from same("parts", (), decision.parts)
    yield from _check_members(decision)
    yield from _check_scopes(decision)


def _check_rollback(partition: Partition, decision: Decision) -> Findings:
    rollback = decision.rollback
    if decision.outcome is not Outcome.ROLLED_BACK or rollback is None:
        wanted = "what was lost" if decision.outcome is Outcome.ROLLED_BACK else None
        yield from same("rollback", wanted, rollback)
        return
    if rollback.branch <= partition.branch:
        yield Finding("rollback.branch", f"above {partition.branch}", str(rollback.branch))
    if not 0 < rollback.first <= partition.sequence + 1:
        yield Finding("rollback.first", f"1 to {partition.sequence + 1}", str(rollback.first))
    if rollback.last < rollback.first:
        yield Finding("rollback.last", f"at least {rollback.first}", str(rollback.last))


def _check_key_change(partition: Partition, decision: Decision) -> Findings:
    change = decision.key_change
    if decision.outcome is not Outcome.KEY_CHANGED or change is None:
        wanted = "another key" if decision.outcome is Outcome.KEY_CHANGED else None
        yield from same("key_change", wanted, change)
        return
    if partition.key is not None:
        yield from same("key_change.by", partition.key, change.by)
    if change.key == change.by:
        yield Finding("key_change.key", "another key", change.key)


def _check_members(decision: Decision) -> Findings:
    """Yield where members are set by a decision that is not about them."""
    if not decision.outcome.opens:
        yield from same("owners", (), decision.owners)
    if decision.outcome.sets_one_member:
        has_roles = decision.member is not None and bool(decision.member.roles)
        if decision.member is None or has_roles != (decision.outcome is Outcome.MEMBER_SET):
            yield Finding("member", "the member that it is about", plain(decision.member))
        return
    yield from same("member", None, decision.member)
    if not decision.outcome.may_be_administered:
        yield from same("administrator", False, decision.administrator)
    if not decision.outcome.pauses_person and decision.reason is not Reason.PERSON_PAUSED:
        yield from same("pause", None, decision.pause)


def _check_scopes(decision: Decision) -> Findings:
    """Yield limits and levels in a decision that must have none."""
    outcome, limit = decision.outcome, decision.limit
    if outcome.sets_limit:
        if limit is None or limit.is_in_force != (outcome is Outcome.LIMIT_SET):
            yield Finding("limit", "the limit that it is about", plain(limit))
    else:
        yield from same("limit", None, limit)
    if not (outcome.charges or outcome.is_step or outcome.charges_team):
        yield from same("levels", (), decision.levels)
    if decision.reason is not Reason.EXHAUSTED:
        yield from same("left_at", (), decision.left_at)
        if decision.reason is not Reason.CLAIM_NOT_ACCEPTED:
            yield from same("level", None, decision.level)


def _check_approval(partition: Partition, decision: Decision) -> Findings:
    """Yield where a decision answers no request that waits, or another one than it says."""
    said, answers = decision.pending, bool(bytes(decision.approval))
    if decision.outcome.waits or (said is None and not answers):
        yield from same("approval", b"", bytes(decision.approval))
        if decision.outcome.waits and said is None:
            yield Finding("pending", "until when it waits", "nothing")
        return
    row = None
    if said is not None and answers:
        row = partition.pending.get(str(decision.dataset), str(said.request))
    if said is None or row is None or not row.is_open:
        yield Finding("pending.request", "a request that waits", plain(said))
        return
    yield from same("request", bytes(row.body or b""), bytes(decision.request))
    if not row.waits(from_iso(decision.decided_at), partition.resets.number):
        yield Finding("decided_at", f"before {iso(row.deadline)}", decision.decided_at)
    if decision.outcome.charges and said.by in {row.analyst, row.via}:
        yield Finding("pending.by", "another owner", str(said.by))


def _check_order(partition: Partition, decision: Decision, *, gapless: bool) -> Findings:
    source = decision.source
    if source is None:
        yield Finding("source", "the place of the input", "nothing")
        return
    yield from same("source.partition", partition.genesis.partition, source.partition)
    due = partition.next["admin" if source.topic == "admin" else "requests"]
    if gapless:
        yield from same("source.offset", due, source.offset)
    elif source.offset < due:
        # Kafka's offsets may have gaps, but no input is decided twice.
        yield Finding("source.offset", f"at least {due}", str(source.offset))
    if from_iso(decision.decided_at) < partition.decided_at:
        yield Finding("decided_at", f"at least {partition.decided_at} ms", decision.decided_at)
    watermark = from_iso(decision.floor)
    if watermark < partition.floor or (not bytes(decision.request) and watermark > partition.floor):
        yield Finding("floor", f"{partition.floor} ms", decision.floor)


def _check_charges_nothing(decision: Decision) -> Findings:
    yield from same("sequence", None, decision.sequence)
    for field in _OF_A_LEDGER:
        yield from same(field, None, getattr(decision, field))
    yield from same("crossed", (), decision.crossed)
    yield from same("spent_ratio", None, decision.spent_ratio)
    yield from same("reached", (), decision.reached)
    yield from same("ends", None, decision.ends)


def _check_numbered(ledger: DatasetLedger | None, decision: Decision) -> Findings:
    if decision.outcome.opens:
        if ledger is not None:
            yield Finding("outcome", "one opening of a dataset", "another one")
        elif decision.policy is None or decision.budget is None:
            yield Finding("policy", "a policy and its budget", "nothing")
        else:
            yield from _check_opening(decision, decision.policy, tuple(decision.budget.values()))
        return
    if ledger is None:
        yield Finding("outcome", "an opened dataset", f"{decision.outcome} before any opening")
        return
    yield from same("sequence", ledger.sequence + 1, decision.sequence)
    yield from same("generation", ledger.generation, decision.generation)
    yield from _check_turns(ledger, decision)
    if decision.outcome is Outcome.AMENDED:
        yield from _check_population(ledger, decision.policy)
        lowered = _lower(ledger, decision)
        if lowered is None:
            yield from same("budget", ledger.plan.budget_wire, decision.budget)
        else:
            ledger = lowered
    else:
        yield from same("policy", None, decision.policy)
    if decision.outcome is Outcome.BUDGET_SET:
        if decision.in_force is None:
            yield Finding("in_force", "the budget in force", "nothing")
            return
        ledger = set_in_force(ledger, decision.in_force)
    yield from _check_sums(ledger, decision)


def _check_turns(ledger: DatasetLedger, decision: Decision) -> Findings:
    """Yield where a pause, of the dataset or of a person, and its end do not take turns."""
    if decision.outcome.switches_pause and ledger.facts.paused == (
        decision.outcome is Outcome.PAUSED
    ):
        yield Finding("outcome", "a pause and its resume in turn", str(decision.outcome))
    if not decision.outcome.pauses_person:
        return
    pause, pauses = decision.pause, ledger.facts.person_pauses
    if pause is None:
        yield Finding("pause", "the pause that it is about", "nothing")
        return
    found = pause_of(pauses, pause.member, pause.team)
    yield from same("pause", None if decision.outcome.pauses else pause, found)


def _check_opening(decision: Decision, policy: Policy, budget: tuple[str, ...]) -> Findings:
    """Yield where an opening's totals are not what it was charged for earlier releases."""
    plan = stored_plan(policy, budget)
    mechanisms, totals = totals_from(plan, decision.totals or {}, decision.rounded_up)
    zero: tuple[Units, ...] = (0,) * len(plan.sums)
    if decision.cost is None:
        yield from same("mechanisms", 0, mechanisms)
        yield from same("totals", _wire(zero), _wire(totals))
        return
    yield from _check_added(plan, zero, tuple(decision.cost.values()), totals)
    if not plan.kind.holds(plan.capacity, totals[: plan.width]):
        yield from _over(plan, totals[: plan.width])


def _check_population(ledger: DatasetLedger, amended: Policy | None) -> Findings:
    """Yield where an amendment takes a dataset out of the sums of its population."""
    if amended is not None:
        yield from same("policy.population", ledger.plan.policy.population, amended.population)


def _lower(ledger: DatasetLedger, decision: Decision) -> DatasetLedger | None:
    """Return the ledger under an amendment's whole policy, None unless nothing was granted yet.

    The filter's limits must be nowhere larger; deciding the amendment again compares the rest.
    """
    if ledger.mechanisms or any(ledger.totals):
        return None
    if decision.policy is None or tuple(decision.budget or {}) != ledger.plan.kind.sums:
        return None
    plan = stored_plan(decision.policy, tuple((decision.budget or {}).values()))
    if any(map(gt, plan.capacity, ledger.plan.capacity)):
        return None
    plan = below(plan, ledger.plan.in_force)
    return msgspec.structs.replace(ledger, plan=plan, totals=(0,) * len(plan.sums))


def _check_sums(ledger: DatasetLedger, decision: Decision) -> Findings:
    plan = ledger.plan
    if decision.totals is None:
        yield Finding("totals", "what the dataset has spent", "nothing")
        return
    mechanisms, totals = totals_from(plan, decision.totals, decision.rounded_up)
    if decision.outcome.is_step:
        yield from _check_given_back(ledger, decision, mechanisms, totals)
    elif decision.outcome.charges:
        if ledger.closed:
            yield Finding("outcome", "no grant after closing", "granted")
        if ledger.facts.paused:
            yield Finding("outcome", "no grant during a pause", "granted")
        if ledger.suspended:
            yield Finding("outcome", "no grant during a suspension", "granted")
        if ledger.halted:
            yield Finding("outcome", "no grant after a halt", "granted")
        if mechanisms <= ledger.mechanisms:
            yield Finding("mechanisms", f"more than {ledger.mechanisms}", str(mechanisms))
        cost = decision.cost or {}
        yield from same("cost", plan.sums, tuple(cost))
        yield from _check_added(plan, ledger.totals, tuple(cost.values()), totals)
        at = plan.ended
        ends = at is not None and totals[at] != ledger.totals[at]
        yield from same("ends", plan.policy.filter if ends else None, decision.ends)
    elif decision.cost is not None and decision.outcome.charges_outside:
        yield from _check_added(plan, ledger.totals, tuple(decision.cost.values()), totals)
    else:
        yield from same("cost", None, decision.cost)
        if plan.ended is None or decision.fits is None:
            yield from same("ends", None, decision.ends)
        yield from same("totals", _wire(ledger.totals), _wire(totals))
        yield from same("rounded_up", rounded_up_wire(ledger), decision.rounded_up)
        yield from same("mechanisms", ledger.mechanisms, mechanisms)
    spent = totals[: plan.width]
    if not plan.kind.holds(plan.capacity, spent):
        yield from _over(plan, spent)
    room = plan.remaining(round_up_amounts(spent))
    remaining = [format_units(amount) for amount in room]
    yield from same("left", dict(zip(plan.kind.sums, remaining, strict=True)), decision.left)
    is_void = _is_void_after(ledger, decision)
    yield from check_odometers(plan, totals, decision.odometers or {}, is_void=is_void)


def _is_void_after(ledger: DatasetLedger, decision: Decision) -> bool:
    """Return whether no theorem covers what was released, after a decision."""
    if decision.guarantee == "void" or ledger.guarantee == "void":
        return True
    broken = 0 if ledger.held is None else ledger.held.broken
    if decision.outcome is Outcome.RESOLVED:
        broken -= 1
    breaks = decision.reservation is not None and decision.reservation.stage == "broken"
    return broken > 0 or breaks


def _check_given_back(
    ledger: DatasetLedger, decision: Decision, mechanisms: int, totals: tuple[Units, ...]
) -> Findings:
    """Yield where a step of a reservation raises a total, or gives back what it does not say."""
    yield from same("cost", None, decision.cost)
    yield from same("mechanisms", ledger.mechanisms, mechanisms)
    if decision.reservation is None:
        yield Finding("reservation", "the reservation that it is about", "nothing")
        return
    returned = decision.reservation.returned or {}
    for name, was, now in zip(ledger.plan.sums, ledger.totals, totals, strict=True):
        due = was if isinstance(was, float) else int(was) - parse_units(returned.get(name, "0"))
        yield from same(f"totals.{name}", format_units(due), format_units(now))


def _over(plan: CompiledPolicy, spent: tuple[Units, ...]) -> Findings:
    for name, limit, amount in zip(plan.sums, plan.capacity, spent, strict=False):
        if amount > limit:
            yield Finding(name, f"at most {format_units(limit)}", format_units(amount))
    # Each sum is within its own limit, but the filter does not admit them together. `audit` stops
    # at the first finding, so this one counts only where the loop found none.
    yield Finding(plan.sums[0], f"totals that filter {plan.kind.name} admits", plain(_wire(spent)))


def _check_added(
    plan: CompiledPolicy, before: tuple[Units, ...], cost: tuple[str, ...], after: tuple[Units, ...]
) -> Findings:
    for i in range(len(before)):
        due = before[i] + parse_units(cost[i])
        yield from same(f"totals.{plan.sums[i]}", format_units(due), format_units(after[i]))


def check_odometers(
    plan: CompiledPolicy,
    totals: tuple[Units, ...],
    found: dict[str, str],
    *,
    is_void: bool = False,
) -> Findings:
    """Yield each odometer that is missing or further off than `ROUNDING`.

    Args:
        is_void: no theorem covers what was released: all are infinite.
    """
    readings = (math.inf,) * len(plan.readers) if is_void else plan.readings(totals)
    due = {
        reader.name: format_reading(value)
        for reader, value in zip(plan.readers, readings, strict=True)
    }
    if due == found:
        return
    yield from same("odometers", tuple(due), tuple(found))
    for name, text in due.items():
        if text != found[name]:
            ours, theirs = Decimal(text), Decimal(found[name])
            finite = ours.is_finite() and theirs.is_finite()
            if not finite or abs(ours - theirs) > ROUNDING * max(ours, theirs):
                yield Finding(f"odometers.{name}", text, found[name])


def _wire(totals: tuple[Units, ...]) -> list[str]:
    return [format_units(amount) for amount in totals]
