"""The file of a schema: what is wrong with it, in words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from accountant.errors import RequestInvalid
from accountant.questions.schema import encode_schema
from accountant.records.schema_file import FILL_IN, read_schema_file

AGE = {"type": "number", "name": "age", "lower": "0", "upper": "120"}
SCHEMA: dict[str, Any] = {
    "source": {"kind": "csv", "name": "people"},
    "columns": [AGE],
    "neighbours": "add_remove",
    "unit": {"column": "id", "rows": 5},
}


def encoded(value: object) -> bytes:
    return json.dumps(value).encode()


def with_age(**fields: object) -> bytes:
    return encoded(SCHEMA | {"columns": [AGE | fields]})


def test_a_schema_is_read() -> None:
    schema = read_schema_file(encoded(SCHEMA))
    assert json.loads(encode_schema(schema)) == SCHEMA
    assert read_schema_file(json.dumps(SCHEMA, indent=2).encode()) == schema


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (with_age(lower=0), 'columns[0].lower must be text in quotes, such as "0", got 0'),
        (with_age(lower=1.5), 'columns[0].lower must be text in quotes, such as "1.5", got 1.5'),
        (with_age(lower=None), "columns[0].lower must be text in quotes, got null"),
        (with_age(places="2"), "columns[0].places must be a whole number without quotes, got 2"),
        (with_age(missing=True), "columns[0].missing must be text in quotes, got true"),
        (with_age(type="numbr"), "did you mean number? columns[0].type must be number, category"),
        (with_age(low="0"), "columns[0].low: did you mean lower? columns[0].low is not a field"),
        (encoded([]), "schema must be an object, such as {...}, got []"),
        (encoded("x"), "schema must be an object, such as {...}, got x"),
        (encoded(SCHEMA | {"columns": {}}), "columns must be a list, such as [...], got {}"),
        (encoded(SCHEMA | {"columns": [1]}), "columns[0] must be an object, such as {...}, got 1"),
        (encoded(SCHEMA | {"columns": []}), "columns must be 1 to 100 columns, got 0 columns"),
        (encoded(SCHEMA | {"neighbours": "x"}), "neighbours must be add_remove or replace, got x"),
        (
            encoded(SCHEMA | {"source": {"kind": "parqet", "name": "x"}}),
            "did you mean parquet? source.kind must be csv, duckdb, parquet or postgresql",
        ),
        (encoded(SCHEMA | {"unit": {"column": "id"}}), "unit.rows is missing: it must be given"),
        (b'{"unit":{"column":"id","rows":1,"rows":500}}', "key 'rows' stands twice in one object"),
        (b"{", "schema must be JSON, got Expecting property name"),
        (b"\xff", "schema must be UTF-8, got invalid start byte"),
        (b"[" * 100_000, "schema must be JSON, got it nests too deep"),
        (
            with_age(lower=FILL_IN + "the least", upper=FILL_IN + "the largest"),
            "columns[0].lower must be filled in for column age (and columns[0].upper), got FILL IN",
        ),
    ],
)
def test_what_is_wrong_is_said_in_words(content: bytes, message: str) -> None:
    with pytest.raises(RequestInvalid) as found:
        read_schema_file(content)
    assert message in str(found.value)
    assert "`" not in str(found.value)
