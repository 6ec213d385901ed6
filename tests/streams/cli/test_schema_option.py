"""`accountant dataset open --schema`, and what shows the schema."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from streams.settings.questions import QuestionSettings
from tests.streams.cli.conftest import Command

SCHEMA: dict[str, Any] = {
    "source": {"kind": "csv", "name": "people"},
    "columns": [{"type": "number", "name": "age", "lower": "0", "upper": "120"}],
    "neighbours": "add_remove",
}
OPEN = ("dataset", "open", "people", "--epsilon", "1", "--delta", "1e-6", "--schema", "schema.json")


def write(accountant: Command, schema: object) -> None:
    (accountant.directory / "schema.json").write_text(json.dumps(schema))


def test_a_dataset_opens_with_a_schema_and_shows_it(accountant: Command) -> None:
    write(accountant, SCHEMA)
    assert accountant(*OPEN).code == 0
    assert accountant("dataset", "show", "people", "--json").json["schema"] == SCHEMA


def test_opening_with_a_schema_tells_how_to_allow_accuracy_first_questions(
    accountant: Command,
) -> None:
    write(accountant, SCHEMA)
    assert "questions: " not in accountant("dataset", "open", "plain", "--epsilon", "1").out
    done = accountant(*OPEN)
    session = ("count", "--epsilon", "0.05", "--relative-error", "0.1 at 0.95", "--dry-run")
    asked = ("ask", "people", *session, "--analyst", "ana")
    refused = accountant(*asked)
    assert "needs a member with the role curator" in refused.out + refused.err
    (command,) = re.findall(r"questions: [^`]+`accountant ([^`]+)`", done.out)
    assert f" {QuestionSettings().curator_name} " in command
    assert accountant(*command.split()).code == 0
    allowed = accountant(*asked)
    assert "curator" not in allowed.out + allowed.err


@pytest.mark.parametrize("preview", [(), ("--preview",)])
def test_a_column_without_quantiles_is_warned_of(
    accountant: Command, preview: tuple[str, ...]
) -> None:
    wide = {**SCHEMA["columns"][0], "upper": "20000000"}
    write(accountant, SCHEMA | {"columns": [wide]})
    assert "age: no quantile or median (20,000,001 candidates" in accountant(*OPEN, *preview).err


UNIT = {"unit": {"column": "person_id", "rows": 5}}


@pytest.mark.parametrize(
    ("more", "options", "warns"),
    [
        ({}, (), True),
        ({}, ("--preview",), True),
        ({}, ("--json",), True),
        ({}, ("--unit", "row"), False),
        (UNIT, (), False),
    ],
)
def test_a_schema_without_a_unit_is_warned_of(
    accountant: Command, more: dict[str, Any], options: tuple[str, ...], warns: bool
) -> None:
    write(accountant, SCHEMA | more)
    done = accountant(*OPEN, *options)
    assert done.code == 0
    assert ("each row counts as one person" in done.err) is warns


def test_the_commands_that_follow_are_the_opener_s(accountant: Command) -> None:
    write(accountant, SCHEMA)
    done = accountant(*OPEN, "--by", "olga", "--access", "members")
    (command,) = re.findall(r"questions: [^`]+`accountant ([^`]+)`", done.out)
    assert command.endswith("--role curator --by olga")
    assert accountant(*command.split()).code == 0


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ([], "schema.json is not a schema: schema must be an object, such as {...}, got []"),
        (SCHEMA | {"columns": []}, "schema.json is not a schema: columns must be 1 to 100"),
        (SCHEMA | {"neighbours": "replace"}, "schema.neighbours must be those of the policy"),
    ],
)
def test_a_wrong_schema_opens_nothing(accountant: Command, schema: object, message: str) -> None:
    write(accountant, schema)
    done = accountant(*OPEN)
    assert done.code == 2
    assert message in done.err
    assert accountant("dataset", "show", "people").code != 0
