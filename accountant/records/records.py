"""Wire types and their codec: JSON, with every amount an exact decimal string."""

from __future__ import annotations

from typing import Final

import msgspec

from accountant.claims import Claim
from accountant.field_rules import (
    Amounts,
    Count,
    Excess,
    Hash,
    Name,
    NoiseAmount,
    Note,
    PartOfOne,
    Time,
    Totals,
)
from accountant.policy import Policy
from accountant.policy.in_force import StoredBudgetInForce
from accountant.policy.lifetime import StoredLifetime
from accountant.records.limit_records import (
    LimitName,
    LimitRecord,
    LimitRemaining,
    LimitUpdate,
    ReachedLimit,
    ShareCut,
)
from accountant.records.members import Member
from accountant.records.operator_records import KeyChange, Rollback, Seal
from accountant.records.outcomes import Outcome, Reason
from accountant.records.person_pauses import PersonPause
from accountant.records.placement import Placement, group_of, record_key
from accountant.records.reservation_rows import GuaranteeState, HolderCount, Stage
from accountant.versions import Format, reader

NO_REQUEST: Final = msgspec.Raw(b"")
"""The `request` of a decision that repeats none; it is never written."""


class Origin(msgspec.Struct, frozen=True):
    """The place of an input record: topic, partition and offset."""

    topic: str
    partition: Count
    offset: Count


class FieldError(msgspec.Struct, frozen=True):
    """The rule that an invalid input breaks."""

    field: str
    rule: str
    value: str


class First(msgspec.Struct, frozen=True, omit_defaults=True):
    """The first decision on a repeated request."""

    partition_sequence: Count
    decided_at: Time
    outcome: Outcome
    hash: Hash
    reason: Reason | None = None
    cost: Amounts | None = None

    @property
    def granted(self) -> bool:
        """Whether the request was granted at first."""
        return self.outcome is Outcome.GRANTED


class PendingUpdate(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a decision says of a request that waits, or did.

    Attributes:
        until: until when an owner may approve it.
        analyst: whose it is.
        by: the owner who has answered it.
        reason: of the owner's record, for people.
        request: the hash of the decision `pending`, where this decision answers it.
    """

    until: Time
    analyst: Name
    by: Name | None = None
    reason: str = ""
    request: Hash | None = None


class Genesis(msgspec.Struct, frozen=True, omit_defaults=True):
    """The settings that decision 0 fixes for a partition's log for ever.

    Attributes:
        application: prefix of the transactional ids.
        partitions: number of partitions; changing it would split ledgers.
        window_ms: time after its issue for which the partition remembers an id.
        skew_ms: largest lead of an id's time over the clock.
        ledger: random, the same in all partitions of a ledger; earlier ledgers have none.
        placement: what a dataset's partition depends on. Only `group` is written.
    """

    application: str
    partition: Count
    partitions: int
    window_ms: int
    skew_ms: int
    ledger: str | msgspec.UnsetType = msgspec.UNSET
    placement: Placement = "name"

    def decides_together(self, dataset: str, other: str) -> bool:
        """Tell whether one request may be over both datasets, however many partitions there are.

        Names whose keys differ may share a partition by chance: that is not enough.
        """
        one = self.partitions == 1
        return one or record_key(dataset, self.placement) == record_key(other, self.placement)

    def keeps_together(self, population: str) -> bool:
        """Tell whether all datasets of a population will lie in one partition.

        A population with a group has datasets of that group alone.
        """
        return self.partitions == 1 or (self.placement == "group" and group_of(population) != "")

    @property
    def has_groups(self) -> bool:
        """Whether names of further datasets can be chosen that are decided together with one."""
        return self.partitions == 1 or self.placement == "group"

    @property
    def settings(self) -> Genesis:
        """The same without the fields that no setting has."""
        return msgspec.structs.replace(self, ledger=msgspec.UNSET)


class ReservationUpdate(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a decision says about a reservation.

    Attributes:
        analyst, purpose: of the request that reserved.
        until: its deadline.
        reserved_at: when it was granted; left out of the grant itself.
        stage: how far it has come, of a refusal that breaks it.
        returned: by how much each written total has fallen, of those that have.
        shown: of a session, the last level it showed.
    """

    analyst: Name
    until: Time
    reserved_at: Time | None = None
    stage: Stage | None = None
    returned: Amounts | None = None
    shown: NoiseAmount | None = None
    purpose: Note = ""


class HeldRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """The reservations of a dataset, in its row and in each of its decisions.

    Attributes:
        count, broken: how many are open, and how many released beyond their maximum.
        totals, rounded_up: what they hold of each total, as of a decision.
        latest_at, settled: as of `ledger.Held`.
    """

    count: Count
    totals: Amounts
    rounded_up: Excess | None = None
    broken: Count = 0
    latest_at: Count = 0
    settled: Count = 0


class Derived(msgspec.Struct, frozen=True):
    """What the ledger derived from a question and the dataset's schema.

    Attributes:
        claim: what is charged, for the unit and the neighbours of the policy.
    """

    claim: Claim


class DatasetPart(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a decision over several datasets says of one of them; the fields are a decision's."""

    dataset: Name
    generation: Count
    sequence: Count
    cost: Amounts | None = None
    asked: Amounts | None = None
    fits: str | None = None
    totals: Totals
    rounded_up: Excess | None = None
    left: Amounts
    odometers: dict[str, str]
    crossed: tuple[str, ...] = ()
    spent_ratio: PartOfOne | None = None
    ends: str | None = None
    level: LimitName | None = None
    levels: tuple[LimitUpdate, ...] = ()
    left_at: tuple[LimitRemaining, ...] = ()
    reservation: ReservationUpdate | None = None
    held: HeldRow | None = None
    guarantee: GuaranteeState | None = None
    holder: HolderCount | None = None
    in_force: StoredBudgetInForce | None = None
    pause: PersonPause | None = None


class Decision(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    repr_omit_defaults=True,
    kw_only=True,
    tag_field="type",
    tag="decision",
):
    """One record of the decision log; a grant is its own charge.

    Attributes:
        partition_sequence: number of the record in its partition, from 0 without a gap.
        previous: hash of the record before it.
        decided_at, floor: the partition's clock and expiry watermark.
        sequence: number of the decision in its dataset.
        version: the mark of the format, see `made_by`.
        rules: number of the rules that made it.
        request: the input, verbatim but for white space around it, and control characters of an
            `invalid` one, which are escapes; left out if it is no JSON or broke adjudication.
        cost: the charge of a grant. `asked`: the cost that a refused request would have had.
        totals, left, odometers: the dataset's, *after* the decision, rounded outward.
        rounded_up: by how many units of 1e-40 each of `totals` exceeds the exact one, as `2/3`;
            those that are exact are left out.
        crossed: the ratios of `alert_at` that this decision is the first to reach.
        spent_ratio: the spent part of the additive budget after the decision, in [0, 1], rounded
            up; left out without `crossed`.
        ends: the filter that admits nothing from this grant on, which basic composition beside it
            has admitted alone; of a refusal, the filter that the offered claim would end.
        fits: the largest claim of the requested kind that would still be granted.
        policy, budget: only of an opening or amendment, resolved and rounded down.
        in_force: of an opening or a `budget_set`, and beside `crossed`: the budget in force; left
            out where all of the policy's is.
        lifetime: of an opening that fixes one or takes from one, and of each renewal: the lifetime,
            and the sum that is charged to it.
        seal: what replaces the beginning of the log, of an outcome `sealed`.
        rollback: what was lost, of an outcome `rolled_back`.
        key_change: which key signs checkpoints, of an outcome `key_changed`.
        owners: of an opening, the owners from then on.
        member: of a `member_set` or `member_removed`: the member, with the roles from then on.
        administrator: of those, of a `paused`, `resumed`, `member_paused` and `member_resumed`: an
            administrator acted for the owners.
        limit: of a `limit_set` or `limit_removed`: the limit from then on.
        reached: of an `amended` or `limit_set`: the limits whose thresholds it is the first to
            reach.
        more_reached: how many more there are, which it does not name: their next grant does.
        shares_cut: of a `recorded`: the reserved shares that it has cut, in that order.
        more_shares_cut: how many more there are, which it does not name.
        level: of a refusal that was not for want of the dataset's own budget: the level.
        levels: of a grant or a `recorded`: each level that it was charged to, after it.
        left_at: of an `exhausted`: what each level has left.
        note: the reason of an operator's command, for people; see `Outcome.by_operator`.
        reservation: of `reserved` and of the steps after it: the reservation that it is about.
        held: the dataset's open reservations after the decision; left out for none.
        guarantee: what has become of the dataset's guarantee, left out where it holds.
        parts: of a decision over several datasets, what it says of each, in the order of the
            request; the fields of one dataset are left out beside it. A `renewed` has the dataset
            that it closes first; its policy, budget, owners and lifetime are the second one's.
        refused_by: of such a refusal, the dataset whose rules refuse.
        holder: of a `too_many_of_holder`: who has too many open reservations, and how many.
        pause: of a `member_paused`, the pause; of a `member_resumed`, the one that has ended; of a
            refusal `person_paused`, the one that refuses.
        derived: of a request with a question, the claim that the ledger derived; left out where it
            was refused before that.
        pending: of a request that waits for an owner's approval, and of the decision that answers
            it.
        approval: of that answer: the owner's record, which is the input. `request` is the
            request that it answers.
        answers: of what gives more, and of a `more_declined`: the number of the answered ask.
        part_of: never in the log: of a decision as one of its datasets sees it, the hash of the
            record.
    """

    version: Format
    partition_sequence: Count
    previous: Hash
    decided_at: Time
    floor: Time
    rules: int
    outcome: Outcome
    reason: Reason | None = None
    dataset: Name | None = None
    generation: Count | None = None
    sequence: Count | None = None
    cost: Amounts | None = None
    asked: Amounts | None = None
    fits: str | None = None
    totals: Totals | None = None
    rounded_up: Excess | None = None
    left: Amounts | None = None
    odometers: dict[str, str] | None = None
    crossed: tuple[str, ...] = ()
    spent_ratio: PartOfOne | None = None
    ends: str | None = None
    first: First | None = None
    error: FieldError | None = None
    policy: Policy | None = None
    budget: Amounts | None = None
    genesis: Genesis | None = None
    request: msgspec.Raw = NO_REQUEST
    source: Origin | None = None
    note: str | None = None
    seal: Seal | None = None
    rollback: Rollback | None = None
    key_change: KeyChange | None = None
    owners: tuple[str, ...] = ()
    member: Member | None = None
    administrator: bool = False
    limit: LimitRecord | None = None
    reached: tuple[ReachedLimit, ...] = ()
    more_reached: Count = 0
    level: LimitName | None = None
    levels: tuple[LimitUpdate, ...] = ()
    left_at: tuple[LimitRemaining, ...] = ()
    reservation: ReservationUpdate | None = None
    held: HeldRow | None = None
    guarantee: GuaranteeState | None = None
    parts: tuple[DatasetPart, ...] = ()
    refused_by: Name | None = None
    part_of: Hash | None = None
    derived: Derived | None = None
    holder: HolderCount | None = None
    in_force: StoredBudgetInForce | None = None
    lifetime: StoredLifetime | None = None
    shares_cut: tuple[ShareCut, ...] = ()
    more_shares_cut: Count = 0
    pause: PersonPause | None = None
    pending: PendingUpdate | None = None
    approval: msgspec.Raw = NO_REQUEST

    @property
    def input_body(self) -> bytes:
        """The bytes of the input that it decides; `request` is the analyst's, of an approval."""
        return bytes(self.approval) or bytes(self.request)

    answers: Count | None = None

    @property
    def granted(self) -> bool:
        """Whether this very decision is a grant; a repeat is none, see `first.granted`."""
        return self.outcome is Outcome.GRANTED

    def __bool__(self) -> bool:
        raise TypeError("a decision is neither true nor false: read its `granted`")


encode = msgspec.json.Encoder().encode
decode_decision = reader(Decision)
decode_policy = msgspec.json.Decoder(Policy).decode

DECODE_ERRORS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""The errors that decoders raise on bytes of another form; the last one on too deep nesting."""
