"""A dataset's row in `state`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from accountant.records.dataset_facts import DatasetFacts
from accountant.records.records import HeldRow
from accountant.records.reservation_rows import GuaranteeState
from accountant.versions import Format, reader


class LedgerRow(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a dataset's row before those of its facts.

    Attributes:
        dataset, generation, sequence, policy, budget, totals, rounded_up, odometers: of the
            dataset's last decision.
        crossed: number of thresholds reached.
        exhausted, closed: as in the dataset.
        halted: as in the dataset; left out unless true.
        opened_at, changed_at: times.
        owners, members, levels, limits: numbers, `limits` of those in force; left out if 0.
        granted_at: with a `population`: time of the first grant.
        closed_at, paused: two of the facts, which have their place here.
        held, guarantee: as in a decision on reservations; `latest_at` of `held` is a time, only
            after the clock was set back.
        note: an owner's words about `guarantee`.
        pending: number of rows of requests that wait for an approval, or did; left out if 0.
    """

    version: Format
    dataset: str
    generation: int
    sequence: int
    policy: msgspec.Raw
    budget: dict[str, str]
    totals: dict[str, str | int]
    rounded_up: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    odometers: dict[str, str]
    crossed: int
    exhausted: bool
    closed: bool
    opened_at: int
    changed_at: int
    halted: bool | msgspec.UnsetType = msgspec.UNSET
    owners: int | msgspec.UnsetType = msgspec.UNSET
    members: int | msgspec.UnsetType = msgspec.UNSET
    granted_at: int | msgspec.UnsetType = msgspec.UNSET
    levels: int | msgspec.UnsetType = msgspec.UNSET
    limits: int | msgspec.UnsetType = msgspec.UNSET
    closed_at: int = 0
    paused: bool = False
    held: HeldRow | msgspec.UnsetType = msgspec.UNSET
    guarantee: GuaranteeState | msgspec.UnsetType = msgspec.UNSET
    note: str | msgspec.UnsetType = msgspec.UNSET
    pending: int | msgspec.UnsetType = msgspec.UNSET


_ABOUT: Final = "One dataset's row in `state`: its ledger, cached from the log."
_FACTS: Final = (DatasetFacts.__doc__ or "").partition("Attributes:")[2]

if TYPE_CHECKING:

    class Snapshot(LedgerRow, DatasetFacts, frozen=True, kw_only=True):
        """One dataset's row in `state`: its ledger, cached from the log."""

else:
    # A struct has one base. The facts' fields stand at the end of the base's.
    Snapshot = msgspec.defstruct(
        "Snapshot",
        [(field.name, field.type, field.default) for field in msgspec.structs.fields(DatasetFacts)],
        bases=(LedgerRow,),
        module=__name__,
        namespace={"__doc__": f"{_ABOUT}\n\n    Attributes:{_FACTS}"},
        frozen=True,
        kw_only=True,
        omit_defaults=True,
        tag_field="type",
        tag="snapshot",
    )

decode_snapshot = reader(Snapshot)
