"""What programs and other services rely on: names to import, parameters, and fields on the wire.

    python -m tests.public_api

writes `tests/public_api.json` again, after an intended change. Say each change in CHANGELOG.md.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, get_args

from msgspec import NODEFAULT
from msgspec.inspect import (
    CollectionType,
    DictType,
    StructType,
    Type,
    UnionType,
    multi_type_info,
)

import streams
import streams.client
import streams.testing
from accountant import noise, policy
from accountant.advice.preview import Preview
from accountant.answers import NoisyAnswer
from accountant.claims import Claim
from accountant.errors import BudgetError, LedgerFault, LogDamaged, RequestInvalid
from accountant.filters import FILTERS
from accountant.odometers import AnyOdometer
from accountant.policy import Policy
from accountant.records import AdminRecord, Decision, PartitionRow, Snapshot
from accountant.records.http_bodies import Me, Problem
from accountant.records.limit_records import ScopeRow
from accountant.records.members import Member, MemberRow
from accountant.records.operator_records import AcceptedRollback, KeyChangeRecord
from accountant.records.outcomes import Outcome, Reason
from accountant.records.previews import PreviewRequest
from accountant.records.receipts import Receipt
from accountant.records.requests import MechanismRequest
from accountant.replay.notable_records import AdminMemberRecord
from accountant.views.datasets import Alert, DatasetView
from accountant.views.heads import Head
from accountant.views.limit_views import AnalystBudget, ScopeView
from accountant.views.overview import Overview
from accountant.views.usage import UsageView
from accountant.views.why import Why

OPENS = ("tests/public_api.json",)

FILE: Final = Path(__file__).resolve().parent / "public_api.json"

WIRE: Final[dict[str, Any]] = {
    "claim": Claim,
    "policy": Policy,
    "odometer": AnyOdometer,
    "request": MechanismRequest,
    "admin": AdminRecord,
    "decision": Decision,
    "state, dataset": Snapshot,
    "state, partition": PartitionRow,
    "state, member": MemberRow,
    "state, level": ScopeRow,
    "preview, request": PreviewRequest,
    "preview": Preview,
    "dataset": DatasetView,
    "overview": Overview,
    "usage": UsageView,
    "why": Why,
    "limit": ScopeView,
    "analyst budget": AnalystBudget,
    "alert": Alert,
    "head": Head,
    "member": Member,
    "me": Me,
    "problem": Problem,
    "receipt": Receipt,
    "answer": NoisyAnswer,
    "audit, rollback": AcceptedRollback,
    "audit, key": KeyChangeRecord,
    "audit, administrator": AdminMemberRecord,
}
"""What goes over the wire, into a log, or out of a command with `--json`."""

# Described once, under names of their own.
_APART: Final = {"claim": Claim, "odometer": AnyOdometer, "policy": Policy}


def described() -> dict[str, Any]:
    """Return the public names and the fields on the wire as they are."""
    return {
        "imports": {
            "streams": sorted(streams.__all__),
            "streams.client": sorted(streams.client.__all__),
            "streams.testing": sorted(streams.testing.__all__),
            "accountant.claims": sorted(each.__name__ for each in get_args(Claim)),
            "accountant.noise": sorted(noise.__all__),
            "accountant.policy": sorted(policy.__all__),
            "accountant.errors": sorted(
                each.__name__ for each in (BudgetError, LedgerFault, LogDamaged, RequestInvalid)
            ),
        },
        "methods": {
            each.__name__: dict(_methods(each))
            for each in (
                *(streams.Accountant, streams.AsyncAccountant, streams.client.Reply),
                *(streams.client.Administrator, streams.client.AsyncAdministrator),
                *(streams.client.Owner, streams.client.AsyncOwner),
            )
        },
        "filters": sorted(FILTERS),
        "outcomes": [*Outcome],
        "reasons": [*Reason],
        "wire": {name: fields_of(kind) for name, kind in WIRE.items()},
    }


def _methods(kind: type) -> Iterator[tuple[str, list[str] | str]]:
    for name, member in sorted(inspect.getmembers(kind)):
        if name.startswith("_") and name != "__init__":
            continue
        if callable(member):
            yield name, [each for each in inspect.signature(member).parameters if each != "self"]
        else:
            yield name, "attribute"


def fields_of(kind: Any) -> list[str]:
    """Return the paths of all fields of a value on the wire; `?` where a field may be left out."""
    (info,) = multi_type_info([kind])
    apart = {each: root for root, union in _APART.items() for each in _structs(union)}
    return sorted({*_paths(info, "", apart, ())})


def _structs(union: Any) -> tuple[type, ...]:
    return get_args(union) or (union,)


def _paths(info: Type, path: str, apart: dict[type, str], above: tuple[type, ...]) -> Iterator[str]:
    match info:
        case UnionType():
            for each in info.types:
                yield from _paths(each, path, apart, above)
        case CollectionType():
            yield from _paths(info.item_type, f"{path}[]", apart, above)
        case DictType():
            yield from _paths(info.value_type, f"{path}{{}}", apart, above)
        case StructType():
            if path and info.cls in apart:
                yield f"{path}: {apart[info.cls]}"
                return
            if info.cls in above:
                yield f"{path}: as above"
                return
            tag = f"<{info.tag}>" if info.tag is not None else ""
            if not info.fields:
                yield f"{path}{tag}"
            for field in info.fields:
                place = f"{path}{tag}.{field.encode_name}"
                has_default = (field.default, field.default_factory) != (NODEFAULT, NODEFAULT)
                yield f"{place}?" if has_default else place
                yield from _paths(field.type, place, apart, (*above, info.cls))
        case _:
            return


if __name__ == "__main__":
    FILE.write_text(json.dumps(described(), indent=1, ensure_ascii=False) + "\n")
    print(f"{FILE.name} written")
