"""What a dataset's owners have said of it: each such field of its state is declared here alone.

The ledger holds these facts as one value. Grants pass it on, its row has them at the end, a replay
moves it by `facts_after`, and a view shows those that it has a field for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from accountant.policy.in_force import StoredBudgetInForce
from accountant.policy.lifetime import StoredLifetime
from accountant.questions.schema import Schema, encode_schema
from accountant.records.kinds import KINDS, RecordKind
from accountant.records.outcomes import paused_by
from accountant.records.person_pauses import Pauses, without_pause
from accountant.records.records import Decision
from accountant.records.requests import SpentBefore
from accountant.times import from_iso


class DatasetFacts(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What no sum of the dataset depends on.

    A row leaves out a fact at its default. The encoder knows a default by its identity, so it is
    one that Python has once: `""`, `0`, `False`, `()`, `None` or `UNSET`.

    Attributes:
        closed_at: time of the closing, in milliseconds; none before it, and none without a
            `population`.
        paused: whether nothing is granted until the dataset is resumed.
        schema: what questions may name, in its canonical form; left out for none.
        label: what the dataset is, in its owner's words.
        in_force: the budget in force; left out where all of the policy's is.
        lifetime: what all its generations, or all datasets of its population, may promise
            together, and the sum of what those up to this one do; left out where it cannot be
            renewed.
        renewed_as: name of the next generation.
        spent: what was released before the opening; left out for nothing.
        recorded, over_budget: whether an owner has recorded a release made elsewhere, and one that
            did not fit the budget. Both stay for ever.
        person_pauses: who cannot ask and not begin, the oldest pause first.
    """

    closed_at: int = 0
    paused: bool = False
    schema: msgspec.Raw | UnsetType = UNSET
    label: str = ""
    in_force: StoredBudgetInForce | UnsetType = UNSET
    lifetime: StoredLifetime | UnsetType = UNSET
    renewed_as: str = ""
    spent: SpentBefore | UnsetType = UNSET
    recorded: bool = False
    over_budget: bool = False
    person_pauses: Pauses = ()


NO_FACTS: Final = DatasetFacts()


def schema_fact(schema: Schema | UnsetType) -> msgspec.Raw | UnsetType:
    """Return a schema as facts have it."""
    return UNSET if schema is UNSET else msgspec.Raw(encode_schema(schema))


_STORED_AS: Final[dict[str, Callable[[Any], Any]]] = {"schema": schema_fact}
"""How facts have a field of a record, where they do not have it as it is."""


def _reader(kind: RecordKind) -> Callable[[msgspec.Raw], msgspec.Struct]:
    """Return a reader of the fields alone that a kind of record sets: others may hold anything."""
    fields = [
        (field.name, field.type, msgspec.field(default=field.default))
        for field in msgspec.structs.fields(kind.body)
        if field.name in kind.sets
    ]
    return msgspec.json.Decoder(msgspec.defstruct(f"{kind.name}_facts", fields)).decode


_READERS: Final = {
    outcome: _reader(kind) for kind in KINDS if kind.sets for outcome in kind.outcomes
}


def facts_of_record(*, charged: bool) -> dict[str, Any]:
    """Return the facts that a record of a release made elsewhere sets.

    Args:
        charged: it fitted the budget.
    """
    return {"recorded": True} if charged else {"recorded": True, "over_budget": True}


def facts_set_by(decision: Decision, *, dates_grants: bool) -> dict[str, Any]:
    """Return the facts of its dataset that a decision sets or states, by name.

    Args:
        dates_grants: as of the dataset's `CompiledPolicy`.
    """
    outcome, facts = decision.outcome, dict[str, Any]()
    paused = paused_by(outcome, decision.reason)
    if paused is not None:
        facts["paused"] = paused
    if outcome.is_applied and not outcome.answers_request:
        if outcome.closes and dates_grants:
            facts["closed_at"] = from_iso(decision.decided_at)
        if decision.in_force is not None:
            facts["in_force"] = decision.in_force
        if decision.lifetime is not None:
            facts["lifetime"] = decision.lifetime
        if outcome.charges_team:
            facts |= facts_of_record(charged=decision.cost is not None)
        read = _READERS.get(outcome)
        if read is not None:
            for name, value in msgspec.structs.asdict(read(decision.request)).items():
                if value is not UNSET:
                    facts[name] = _STORED_AS[name](value) if name in _STORED_AS else value
    return facts


def facts_after(facts: DatasetFacts, decision: Decision, *, dates_grants: bool) -> DatasetFacts:
    """Return the facts of a dataset after a decision.

    Args:
        dates_grants: as of `facts_set_by`.
    """
    if decision.outcome.charges and not facts.paused:
        return facts  # most decisions say only that the dataset is not paused
    stated = facts_set_by(decision, dates_grants=dates_grants)
    if decision.outcome.pauses_person:
        stated["person_pauses"] = _pauses_after(facts.person_pauses, decision)
    return with_facts(facts, stated)


def _pauses_after(pauses: Pauses, decision: Decision) -> Pauses:
    if decision.pause is None:  # which an audit finds
        return pauses
    if decision.outcome.pauses:
        return (*pauses, decision.pause)
    return without_pause(pauses, decision.pause)


def with_facts(facts: DatasetFacts, stated: Mapping[str, Any]) -> DatasetFacts:
    """Return facts with some of them replaced; equal facts are the same value."""
    changes = {name: value for name, value in stated.items() if value != getattr(facts, name)}
    if not changes:
        return facts
    after = msgspec.structs.replace(facts, **changes)
    return NO_FACTS if after == NO_FACTS else after
