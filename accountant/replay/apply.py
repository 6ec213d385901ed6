"""The effect of one decision in the log on a partition's state."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from operator import lt

import msgspec
from msgspec import UNSET

from accountant.dataset_ledger import DatasetLedger, guarantee_after_resolving
from accountant.errors import LogDamaged
from accountant.ledger.administer import crossed_under, set_in_force
from accountant.ledger.snapshots import totals_from
from accountant.partition import Partition
from accountant.partition.approvals import drop_due
from accountant.partition.ids import decode_identity, id_key, pack_decision
from accountant.policy.compiled_policy import CompiledPolicy, below, stored_plan
from accountant.records import Decision, Source
from accountant.records.dataset_facts import NO_FACTS, facts_after
from accountant.records.outcomes import Outcome, Reason
from accountant.records.parts import by_dataset
from accountant.records.requests import Resolve
from accountant.replay.asks import ReplayedAsks, changes_asks, take_asks
from accountant.replay.members_and_limits import (
    cut_replayed,
    end_replayed,
    take_members,
    take_scopes,
)
from accountant.replay.pending_requests import ReplayedPending, take_pending
from accountant.replay.reservations import ReplayedReservations, limit_charges, take_reservation
from accountant.reservations.held import drop_final
from accountant.times import ClockResets, from_iso, issued_at

_decode_resolve = msgspec.json.Decoder(Resolve).decode


def apply(partition: Partition, decision: Decision, digest: str) -> None:
    """Apply one decision to the partition: clock, expiry watermark, offsets and ledgers.

    The amounts are copied from the decision, not recomputed.

    Raises: LogDamaged: the decision contradicts its dataset's ledger.
    """
    if decision.outcome.resets_clock:
        for name in partition.levels.datasets_with_ends:  # before the clock goes back
            end_replayed(partition, name, None)
        # The watermark (`floor`) falls. The ids that it had expired must stay expired.
        partition.ids.forget(partition.floor)
        partition.full = None
        last_to = from_iso(decision.decided_at)
        partition.resets = ClockResets(partition.resets.number + 1, last_to)
    if decision.rollback is not None:
        partition.branch = decision.rollback.branch
    if decision.key_change is not None:
        partition.key = decision.key_change.key
    partition.rules = decision.rules
    partition.sequence, partition.head = decision.partition_sequence, digest
    partition.decided_at = from_iso(decision.decided_at)
    partition.floor = from_iso(decision.floor)
    source = decision.source
    if source is not None:
        partition.next[parse_source(source.topic)] = source.offset + 1
    for part in by_dataset(decision):
        _apply_to_dataset(partition, part, digest)


def _apply_to_dataset(partition: Partition, decision: Decision, digest: str) -> None:
    if decision.sequence is None or decision.dataset is None:
        return
    ledger = partition.ledgers.get(decision.dataset)
    expected = 1 if ledger is None else ledger.sequence + 1
    if decision.sequence != expected:
        raise LogDamaged(
            f"decision {decision.partition_sequence} is number {decision.sequence} of dataset "
            f"{decision.dataset}, but number {expected} comes next"
        )
    if ledger is not None and ledger.limits:
        end_replayed(partition, ledger.dataset, decision.sequence)
    if ledger is not None and ledger.held is not None:
        ledger = drop_final(ReplayedReservations(partition), ledger, partition.decided_at)
    if ledger is not None:
        ledger = drop_due(ReplayedPending(partition), ledger, partition.decided_at)
    after = _ledger_after(ledger, decision, partition.decided_at)
    if decision.pending is not None:
        after = take_pending(partition, after, decision, digest)
    if decision.reservation is not None and ledger is not None:
        charges = limit_charges(partition, after, decision)
        after = take_reservation(partition, ledger, after, decision, digest, charges)
    if decision.owners or decision.member is not None:
        owners, members = take_members(partition, decision)
        after = msgspec.structs.replace(
            after, owners=after.owners + owners, members=after.members + members
        )
    if decision.levels or decision.limit is not None or decision.reached:
        levels, limits = take_scopes(partition, after, decision)
        after = msgspec.structs.replace(
            after, levels=after.levels + levels, limits=after.limits + limits
        )
    if changes_asks(decision):
        take_asks(ReplayedAsks(partition), decision)
    if decision.outcome is Outcome.RECORDED:
        cut_replayed(partition, after)
    partition.ledgers[decision.dataset] = after
    partition.checksum.forget(decision.dataset)  # a seal has added that of the row before


def plan_of(decision: Decision) -> CompiledPolicy:
    """Return the policy that an opening or an amendment sets.

    Raises: LogDamaged: the decision has none, or one that its budget does not fit.
    """
    if decision.policy is None or decision.budget is None:
        raise LogDamaged(f"decision {decision.partition_sequence} has no policy")
    budget = tuple(decision.budget.values())
    return stored_plan(decision.policy, budget, decision.in_force or UNSET)


def _ledger_after(ledger: DatasetLedger | None, decision: Decision, at: int) -> DatasetLedger:
    outcome = decision.outcome
    if outcome.sets_policy:
        plan = plan_of(decision)
        if ledger is None:
            facts = facts_after(NO_FACTS, decision, dates_grants=plan.dates_grants)
            opened = DatasetLedger.new(str(decision.dataset), plan, at, facts)
            opened = msgspec.structs.replace(opened, generation=decision.generation or 1)
            return _opened(opened, decision)
        plan = below(plan, ledger.plan.in_force)
        crossed = crossed_under(plan, ledger)
        ledger = msgspec.structs.replace(ledger, plan=plan, crossed=crossed)
        if not ledger.mechanisms and not any(ledger.totals):
            # Where nothing was granted yet, the whole policy may be another one, odometers too.
            zero = (0,) * len(plan.sums)
            ledger = msgspec.structs.replace(ledger, totals=zero)
    if ledger is None:
        raise LogDamaged(
            f"decision {decision.partition_sequence} is about a dataset that was never opened"
        )
    plan = ledger.plan
    mechanisms, totals = totals_from(plan, decision.totals or {}, decision.rounded_up)
    falls = not outcome.is_step and any(map(lt, totals, ledger.totals))
    if mechanisms < ledger.mechanisms or falls:
        raise LogDamaged(
            f"decision {decision.partition_sequence} lowers what was spent of dataset "
            f"{ledger.dataset}: a log never gives a grant back"
        )
    spent = plan.progress(totals)
    # A level that has no room exhausts and halts nothing of the dataset.
    refused = decision.reason is Reason.EXHAUSTED and decision.level is None
    # What comes back makes room again, so that only a budget that is still reached is exhausted.
    was_exhausted = ledger.exhausted and not (outcome.is_step and totals != ledger.totals)
    after = msgspec.structs.replace(
        ledger,
        sequence=ledger.sequence + 1,
        mechanisms=mechanisms,
        totals=totals,
        # An amendment's are counted above, under its own thresholds.
        crossed=ledger.crossed + (0 if outcome is Outcome.AMENDED else len(decision.crossed)),
        exhausted=was_exhausted or (refused and spent >= plan.nearly) or spent >= plan.most,
        closed=ledger.closed or outcome.closes,
        changed_at=at,
        halted=ledger.halted or (refused and bool(plan.policy.halt_on_refusal)),
        fractional=bool(decision.rounded_up),
        granted_at=ledger.granted_at or (at if mechanisms and plan.dates_grants else 0),
        facts=facts_after(ledger.facts, decision, dates_grants=plan.dates_grants),
    )
    if outcome is Outcome.BUDGET_SET and decision.in_force is not None:
        return set_in_force(after, decision.in_force)
    return _resolved(after, decision) if outcome.charges_outside else after


def _opened(ledger: DatasetLedger, decision: Decision) -> DatasetLedger:
    """Return a new ledger with what its opening was charged for earlier releases."""
    if decision.cost is None:
        return ledger
    plan = ledger.plan
    mechanisms, totals = totals_from(plan, decision.totals or {}, decision.rounded_up)
    return msgspec.structs.replace(
        ledger,
        mechanisms=mechanisms,
        totals=totals,
        crossed=len(decision.crossed),
        exhausted=plan.progress(totals) >= plan.most,
        fractional=bool(decision.rounded_up),
    )


def _resolved(ledger: DatasetLedger, decision: Decision) -> DatasetLedger:
    """Return a ledger with what an owner's word on other releases makes of its guarantee."""
    mistaken, note = False, ledger.note
    if decision.outcome is Outcome.RESOLVED:
        record = _decode_resolve(bytes(decision.request))
        mistaken = record.claim is None
        note = record.mistaken or record.reason or note
    charged = decision.cost is not None
    guarantee = guarantee_after_resolving(ledger.guarantee, mistaken=mistaken, charged=charged)
    return msgspec.structs.replace(ledger, guarantee=guarantee, note=note)


def remember(partition: Partition, decision: Decision, digest: str) -> None:
    """Remember the id of a decided request, if the partition must recognise its repeats."""
    if not decision.outcome.is_numbered or decision.reason is Reason.OVERLOADED:
        return
    body = decision.input_body
    if not body or decision.source is None:
        raise LogDamaged(f"decision {decision.partition_sequence} has no request")
    identity = decode_identity(body)
    issued = issued_at(identity.request_id)
    if issued is None or issued <= partition.floor:
        return
    caller = identity.analyst or identity.by
    source = parse_source(decision.source.topic)
    key = id_key(source, identity.dataset, caller, identity.request_id)
    remembered = pack_decision(
        hashlib.sha256(body).digest(),
        bytes.fromhex(digest[7:]),
        decision.partition_sequence,
        from_iso(decision.decided_at),
        decision.outcome,
        decision.reason,
        None if decision.cost is None else _share_equal(tuple(decision.cost.items())),
    )
    partition.ids.add(issued, key, remembered)


@lru_cache(maxsize=16_384)
def _share_equal(cost: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Return one dictionary for all equal costs: one each would double the memory of the ids."""
    return dict(cost)


def parse_source(topic: str) -> Source:
    """Return the source of the input that a decision names.

    Raises: LogDamaged: no source has that name.
    """
    if topic == "requests":
        return "requests"
    if topic == "admin":
        return "admin"
    raise LogDamaged(f"unknown source {topic}")
