"""The table of records: it is complete, and the tables above it have a row for each kind."""

from __future__ import annotations

from typing import get_args

from accountant.ledger.administer import CHANGES
from accountant.partition.admin_records import RULES, RULES_OF_SEVERAL
from accountant.partition.approvals import Answer
from accountant.records.kinds import KINDS, OPENING
from accountant.records.outcomes import Outcome
from accountant.records.requests import Body
from streams.gateway.contract.descriptions import description_of
from tests.examples_of_records import EXAMPLES, examples_of


def test_every_record_has_one_kind() -> None:
    assert [kind.body for kind in KINDS] == list(get_args(Body))


def test_every_applied_outcome_has_one_kind() -> None:
    found = sorted(outcome for kind in KINDS for outcome in kind.outcomes)
    assert found == sorted(outcome for outcome in Outcome if outcome.is_applied)


def test_outcomes_agree_with_their_kind() -> None:
    for kind in KINDS:
        for outcome in kind.outcomes:
            assert outcome.may_be_administered is kind.allows_administrator, outcome
            assert (outcome.charges or outcome.is_step) is (kind.source == "requests"), outcome
            assert outcome.opens is (kind is OPENING), outcome


def test_the_core_has_one_rule_for_every_admin_record() -> None:
    rules = [*RULES, *RULES_OF_SEVERAL, *CHANGES, *get_args(Answer)]
    due = {kind.body for kind in KINDS if kind.source == "admin"} - {OPENING.body}
    assert len(set(rules)) == len(rules)
    assert set(rules) == due


def test_every_kind_has_an_address_of_its_own_and_words() -> None:
    paths = [kind.path for kind in KINDS if kind.path is not None]
    assert len(set(paths)) == len(paths) == len(KINDS) - 2
    summaries = [description_of(kind).partition("\n")[0] for kind in KINDS]
    assert all(summary.endswith(".") for summary in summaries), summaries
    assert len(set(summaries)) == len(KINDS)
    assert not [kind for kind in KINDS if "Attributes" in description_of(kind)]
    assert len({kind.does for kind in KINDS}) == len(KINDS)


def test_every_kind_has_an_example_with_its_fields_command_and_call() -> None:
    """Tests of commands, calls, texts and generated loads start from these examples."""
    missing = []
    for kind in KINDS:
        examples = examples_of(kind.name)
        fields = {"type", *kind.body.__struct_encode_fields__}
        if not examples:
            missing.append(f"an example of {kind.name}")
            continue
        given = set[str]().union(*(each.whole("") for each in examples))
        assert given <= fields, kind.name
        missing += [f"{kind.name}.{name}" for name in sorted(fields - given)]
        if not any(each.command for each in examples):
            missing.append(f"the command that sends {kind.name}")
        if kind.source == "admin" and not any(each.call for each in examples):
            missing.append(f"the call that sends {kind.name}")
    assert not missing, f"EXAMPLES of tests/examples_of_records.py lacks {', '.join(missing)}"
    assert {each.kind for each in EXAMPLES} == {kind.name for kind in KINDS}
