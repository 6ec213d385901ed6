"""What owners have said of a dataset: one declaration serves its ledger, its row and a replay."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec
import pytest
from msgspec import UNSET

from accountant.claims import CheckedClaim
from accountant.claims.text import parse_claim
from accountant.ledger.adjudicate import adjudicate
from accountant.ledger.snapshots import ledger_of_row, snapshot
from accountant.partition.fast_records import encode_grant, row
from accountant.policy.in_force import StoredBudgetInForce
from accountant.policy.lifetime import StoredLifetime
from accountant.records import Snapshot, decode_snapshot, encode
from accountant.records.dataset_facts import NO_FACTS, DatasetFacts, with_facts
from accountant.records.kinds import KINDS
from accountant.records.person_pauses import PersonPause
from accountant.records.requests import SpentBefore
from accountant.replay.check_admin_records import check_admin_rows
from accountant.replay.check_rows import RowContradictsLog
from accountant.times import iso
from tests.accountant.partition.test_derived_claims import SCHEMA, opened

FIELDS: Final = DatasetFacts.__struct_fields__
AMONG_OTHERS: Final = ("closed_at", "paused")
"""Facts with a place of their own in a row, which a dataset that grants does not have."""
CLAIM: Final = CheckedClaim(parse_claim("pure:0.1"))
VALUES: Final[dict[type, Any]] = {
    bool: True,
    int: 7,
    str: 'of "ana" %d \\',
    type(UNSET): msgspec.Raw(json.dumps(SCHEMA, separators=(",", ":")).encode()),
}
"""A value by the type of a fact's default."""
STORED: Final = {
    "in_force": StoredBudgetInForce(epsilon="0.5", budget={"epsilon": "0.5", "delta": "0"}),
    "spent": SpentBefore(claim=CLAIM.claim, evidence="table 3"),
    "person_pauses": (PersonPause(member="ana", by="olga", reason="a loop", since=iso(0)),),
    "lifetime": StoredLifetime(epsilon="5", first="a", spent={"epsilon": "1", "delta": "0"}),
}
"""The values of facts for which that is too little."""


def facts_with(*names: str) -> DatasetFacts:
    values = {n: STORED.get(n) or VALUES[type(getattr(NO_FACTS, n))] for n in names}
    return with_facts(NO_FACTS, values)


@pytest.mark.parametrize("name", FIELDS)
def test_a_row_has_a_fact_unless_it_is_at_its_default(name: str) -> None:
    ledger = opened(schema=None).ledger()
    assert ledger.facts is NO_FACTS
    assert name not in json.loads(encode(snapshot(ledger)))
    ledger = msgspec.structs.replace(ledger, facts=facts_with(name))
    text = encode(snapshot(ledger))
    assert name in json.loads(text)
    again = ledger_of_row(decode_snapshot(text))
    assert again.facts == ledger.facts
    assert encode(snapshot(again)) == text


def test_facts_stand_at_the_end_of_a_row() -> None:
    end = [name for name in FIELDS if name not in AMONG_OTHERS]
    assert list(Snapshot.__struct_fields__)[-len(end) :] == end
    assert Snapshot.__struct_fields__.index("held") > Snapshot.__struct_fields__.index("paused")


def test_the_row_of_a_grant_has_the_facts_as_the_encoder_writes_them() -> None:
    before = opened().ledger()
    at_the_end = facts_with(*(name for name in FIELDS if name not in AMONG_OTHERS))
    # Equal to the default, and not the same value: the row has no comma too many.
    for facts in (NO_FACTS, msgspec.structs.replace(NO_FACTS), at_the_end):
        ledger = msgspec.structs.replace(before, facts=facts)
        granted, verdict = adjudicate(ledger, CLAIM, "person", "add_remove", 0)
        _, amounts = encode_grant(2, b"", 0, 0, granted, verdict, b"{}", 0, 0, None)
        assert row(granted, amounts) == encode(snapshot(granted))


def test_equal_facts_are_the_same_value() -> None:
    paused = with_facts(NO_FACTS, {"paused": True})
    assert with_facts(paused, {"paused": True, "closed_at": 0}) is paused
    assert with_facts(paused, {"paused": False}) is NO_FACTS


@pytest.mark.parametrize("name", FIELDS)
def test_a_row_with_a_fact_that_no_record_has_set_contradicts_the_log(name: str) -> None:
    world = opened(schema=None)
    world.ask("pure:0.1")
    world.commit()
    check_admin_rows(world.state, world.log, [])
    forged = msgspec.structs.replace(world.ledger(), facts=facts_with(name))
    world.state.ledgers["census"] = forged
    with pytest.raises(RowContradictsLog, match=f"the row of dataset census .* has {name} "):
        check_admin_rows(world.state, world.log, [])


def test_a_kind_of_record_sets_facts_to_its_own_fields() -> None:
    for kind in KINDS:
        assert set(kind.sets) <= set(FIELDS) & set(kind.body.__struct_fields__), kind.name
