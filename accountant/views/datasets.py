"""Views of datasets, made from their ledgers, and alerts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET

from accountant.dataset_ledger import DatasetLedger
from accountant.field_rules import Amounts, Count, Excess, Name, Note, PartOfOne, Time, Totals
from accountant.ledger.snapshots import (
    held_row,
    odometers_wire,
    remaining_wire,
    rounded_up_wire,
    totals_wire,
)
from accountant.policy import Policy
from accountant.policy.compiled_policy import CompiledPolicy
from accountant.policy.in_force import StoredBudgetInForce
from accountant.policy.lifetime import StoredLifetime
from accountant.questions.schema import Schema, decode_schema
from accountant.records.asks import AskKind
from accountant.records.limit_records import Scope
from accountant.records.person_pauses import Pauses
from accountant.records.records import HeldRow
from accountant.records.requests import SpentBefore
from accountant.records.reservation_rows import GuaranteeState
from accountant.times import iso
from accountant.views.joint import JointGuarantee

UNKNOWN: Final = -1
"""Number of the last partition decision of a view that counts none."""

Approval = Literal["pending", "approved", "denied"]
State = Literal["open", "exhausted", "halted", "paused", "suspended", "closed"]


class DatasetView(msgspec.Struct, frozen=True, repr_omit_defaults=True, kw_only=True):
    """The current state of a dataset.

    Attributes:
        dataset, generation, sequence, policy, totals, rounded_up, left, odometers: as in a
            decision, after the dataset's last one.
        budget: what each sum may reach now.
        partition_sequence: number in the log of the decision as of which this is shown; -1 where
            the server has counted none on the dataset.
        spent_ratio: of the additive budget, rounded up, 0 to 1. It is no epsilon: the filter's
            formula at the running total bounds nothing.
        crossed: thresholds of `alert_at` that were reached.
        exhausted: as the metric `privacy_filter_exhausted`.
        halted: `halt_on_refusal` has ended it: a request did not fit.
        paused: an owner, or an administrator, has paused it: nothing is granted until it is
            resumed.
        reserved, open_reservations: what open reservations hold of `totals`, which may come back,
            and their number.
        broken: how many of them released beyond their maximum; above 0 the dataset is suspended.
        guarantee: `explained`, `if_bounded` or `void`; empty while it holds.
        spent: what was released before the opening; left out for nothing.
        recorded, over_budget: whether an owner has recorded a release made elsewhere, and one that
            did not fit the budget.
        person_pauses: the pauses of persons and teams, the oldest first: all of them for who sees
            all of the dataset, else those that are the caller's or their team's.
        schema: what questions may name; left out of a dataset that takes none.
        label: what the dataset is, in its owner's words; empty for none.
        in_force: the budget in force; left out where all of the policy's is.
        ceiling: what each sum may reach under the policy; empty without `in_force`.
        lifetime: what all its generations guarantee together, and the sum of the guarantees up to
            this one, or of all datasets where it is shared; left out where it has none.
        lifetime_guarantee: as `guarantee`, the worst of all datasets of the lifetime. Views that
            know of no other dataset have this one's.
        renewed_as: name of the next generation; empty for none.
        closed: an owner has closed it.
        opened_at, last_decided_at: times.
        horizon_ends_at: the opening plus the policy's `horizon`; null without one.
        granted_at, closed_at: only with a `population`: times of the first grant and of the
            closing.
        joint_guarantee: only with a `population`: what all its datasets guarantee together. Left
            out in views that know of no other dataset.
        outcomes, reasons: number of decisions of each, since the answering process started. For a
            ledger's file: requests of all time, by the index of usage; none while that is over
            10,000 decisions behind.
    """

    dataset: Name
    generation: Count
    sequence: Count
    partition_sequence: int
    policy: Policy
    budget: Amounts
    spent_ratio: PartOfOne
    totals: Totals
    left: Amounts
    odometers: dict[str, str]
    crossed: tuple[str, ...]
    exhausted: bool
    closed: bool
    opened_at: Time
    last_decided_at: Time
    horizon_ends_at: Time | None = None
    halted: bool = False
    outcomes: dict[str, int] = {}
    reasons: dict[str, int] = {}
    rounded_up: Excess = {}
    granted_at: str | None = None
    closed_at: str | None = None
    joint_guarantee: JointGuarantee | msgspec.UnsetType = msgspec.UNSET
    paused: bool = False
    reserved: dict[str, str] = {}
    open_reservations: int = 0
    broken: int = 0
    guarantee: GuaranteeState = ""
    schema: Schema | msgspec.UnsetType = msgspec.UNSET
    label: Note = ""
    spent: SpentBefore | msgspec.UnsetType = msgspec.UNSET
    recorded: bool = False
    over_budget: bool = False
    person_pauses: Pauses = ()
    in_force: StoredBudgetInForce | msgspec.UnsetType = msgspec.UNSET
    ceiling: Amounts = {}
    lifetime: StoredLifetime | msgspec.UnsetType = msgspec.UNSET
    lifetime_guarantee: GuaranteeState = ""
    renewed_as: str = ""

    @property
    def is_void(self) -> bool:
        """Whether no theorem covers what was released: a claim was false, and is not resolved."""
        return self.guarantee == "void"

    @property
    def is_unused(self) -> bool:
        """Whether the dataset was closed before anything was granted: it has read no data."""
        return self.closed and self.totals.get("mechanisms") == 0

    @property
    def state(self) -> State:
        """Whether the dataset still grants, in a word."""
        if self.closed:
            return "closed"
        if self.broken:
            return "suspended"
        if self.paused:
            return "paused"
        if self.halted:
            return "halted"
        return "exhausted" if self.exhausted else "open"


class AlertOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """The decision that gave rise to an alert.

    Attributes:
        partition: of the log.
        number: of the decision in it.
        branch: how many rollbacks the log had accepted up to there.
    """

    partition: int
    number: int
    branch: int


class Alert(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A threshold is crossed, a reserved share was cut, or somebody asks owners for more.

    Or a request waits for an owner's approval, or has got its answer.

    Attributes:
        alert_id: `dataset/generation/threshold`, below a ceiling with the budget in force as
            `census/1/epsilon=2/0.8`, the same however often it is sent; of a level see
            `limit_records.scope_alert_id`, of a request `alerts.approval_alert`, of an ask
            `census/1/ask/17`.
        threshold: empty where a share was cut, of a request, and of an ask.
        spent_ratio: of the additive budget, of a level that of its limit; 0 without a threshold.
        decided_at: of the decision that was seen to have crossed it.
        decision: that decision; on the topic and in the webhook's body.
        scope, name: of a level whose limit it is; None of the dataset's own budget.
        analyst: of scope `each`: the analyst under the default; of a request, whose it is.
        team: of a team's limit, and of its default, for receivers that route by it.
        version: of the limit.
        cut: of each sum, what a release made elsewhere has cut of a reserved share.
        approval: of a request above `approve_above`: whether it waits, or its answer.
        until: until when an owner may answer it.
        by: the owner who has answered it.
        ask, asker, wants: of an ask: its number, the person, and for what. Owners read why there.
    """

    alert_id: str
    dataset: Name
    generation: Count
    threshold: str
    spent_ratio: PartOfOne
    decided_at: Time
    scope: Scope | None = None
    name: str | None = None
    analyst: Name | None = None
    team: str | None = None
    version: int | None = None
    cut: Amounts | None = None
    approval: Approval | None = None
    until: Time | None = None
    by: Name | None = None
    ask: Count | None = None
    asker: Name | None = None
    wants: AskKind | None = None
    decision: AlertOrigin | None = None


decode_alert = msgspec.json.Decoder(Alert).decode
decode_dataset_view = msgspec.json.Decoder(DatasetView).decode


def view_of_ledger(ledger: DatasetLedger) -> DatasetView:
    """Return the view of a ledger; it has counted nothing yet."""
    plan = ledger.plan
    return DatasetView(
        dataset=ledger.dataset,
        generation=ledger.generation,
        sequence=ledger.sequence,
        partition_sequence=UNKNOWN,
        policy=plan.policy,
        budget=plan.limits_wire,
        ceiling={} if plan.in_force is UNSET else plan.budget_wire,
        spent_ratio=ledger.spent_ratio,
        totals=totals_wire(ledger),
        left=remaining_wire(ledger),
        odometers=odometers_wire(ledger),
        crossed=plan.policy.alert_at[: ledger.crossed],
        exhausted=ledger.exhausted,
        closed=ledger.closed,
        opened_at=iso(ledger.opened_at),
        last_decided_at=iso(ledger.changed_at),
        horizon_ends_at=_horizon(plan, ledger.opened_at),
        halted=ledger.halted,
        rounded_up=rounded_up_wire(ledger) or {},
        granted_at=iso(ledger.granted_at) if ledger.granted_at else None,
        **_held_fields(held_row(ledger)),
        guarantee=ledger.stated_guarantee,
        lifetime_guarantee="" if ledger.facts.lifetime is UNSET else ledger.stated_guarantee,
        **_shown(msgspec.structs.asdict(ledger.facts)),
    )


_SHOWN_AS: Final[dict[str, Callable[[Any], Any]]] = {
    "closed_at": lambda at: iso(at) if at else None,
    "schema": lambda schema: schema if schema is UNSET else decode_schema(bytes(schema)),
}
"""How a view shows a fact that it does not show as it is."""
_FIELDS: Final = frozenset(DatasetView.__struct_fields__)


def _shown(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a view that show facts of a dataset: those of the same names."""
    return {
        name: _SHOWN_AS[name](fact) if name in _SHOWN_AS else fact
        for name, fact in facts.items()
        if name in _FIELDS
    }


def _held_fields(held: HeldRow | None) -> dict[str, Any]:
    if held is None or not held.count:
        return {"reserved": {}, "open_reservations": 0, "broken": 0}
    return {"reserved": held.totals, "open_reservations": held.count, "broken": held.broken}


def alert_id_of(
    dataset: str, generation: int, threshold: str, in_force: StoredBudgetInForce | None
) -> str:
    """Return the id of the alert that a dataset's budget in force has reached a threshold."""
    place = f"{dataset}/{generation}"
    return f"{place}/{threshold}" if in_force is None else f"{place}/{in_force.text}/{threshold}"


def alerts(before: DatasetView | None, after: DatasetView) -> tuple[Alert, ...]:
    """Return an alert for each threshold that `after` has crossed and `before` had not.

    Without `before`, for each that is crossed: what to send again after a start.
    """
    same = before is not None and (before.generation, before.in_force) == (
        after.generation,
        after.in_force,
    )
    known = before.crossed if same and before is not None else ()
    return tuple(
        [
            Alert(
                alert_id=alert_id_of(
                    after.dataset, after.generation, threshold, after.in_force or None
                ),
                dataset=after.dataset,
                generation=after.generation,
                threshold=threshold,
                spent_ratio=after.spent_ratio,
                decided_at=after.last_decided_at,
            )
            for threshold in after.crossed
            if threshold not in known
        ]
    )


class SeenAlerts:
    """Detects repeated alerts.

    The topic, the stream of events and the webhook may each give an alert more than once: after
    a restart, or when an answer was lost. `alert_id` names one. There are at most twenty thresholds
    for each dataset and version of a limit (of a default, for each analyst), and two alerts of each
    request that waited, so all are stored.

        seen = SeenAlerts(ids_stored_so_far)
        if seen.is_new(alert):
            act(alert)
            seen.add(alert)  # not before: what fails half-way is to be done again

    Args:
        known: ids of alerts that were dealt with before.

    Attributes:
        ids: those dealt with.
    """

    def __init__(self, known: Iterable[str] = ()) -> None:
        self.ids = set(known)

    def is_new(self, alert: Alert) -> bool:
        """Tell whether an alert was not dealt with yet."""
        return alert.alert_id not in self.ids

    def add(self, alert: Alert) -> None:
        """Note that an alert was dealt with."""
        self.ids.add(alert.alert_id)

    def take(self, alerts: Iterable[Alert]) -> list[Alert]:
        """Return the alerts that are new, and note them: for callers that cannot fail half-way."""
        new = []
        for alert in alerts:
            if self.is_new(alert):
                self.add(alert)
                new.append(alert)
        return new


def _horizon(plan: CompiledPolicy, opened_at: int) -> str | None:
    seconds = plan.horizon_seconds
    return None if seconds is None else iso(opened_at + seconds * 1000)
