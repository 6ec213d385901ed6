"""The argument `schema` of `open`: a Schema, or an object as on the wire, wrong ones in words."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from accountant.errors import RequestInvalid
from accountant.questions import Schema
from accountant.questions.schema import BooleanColumn
from accountant.records.schema_file import FILL_IN, schema_of
from streams.client.requests.admin_requests import open_fields

AGE = {"type": "number", "name": "age", "lower": "0", "upper": "9"}
SCHEMA: dict[str, Any] = {
    "source": {"kind": "csv", "name": "people"},
    "columns": [AGE, {"type": "boolean", "name": "flag"}],
    "neighbours": "add_remove",
}


def opened(schema: Any) -> object:
    fields = open_fields({"epsilon": "1"}, as_given=True, owners=None, schema=schema)
    return fields["schema"]


def test_each_form_of_a_schema_is_the_same_schema() -> None:
    schema = schema_of(SCHEMA)
    assert isinstance(schema, Schema)
    assert opened(schema) == opened(SCHEMA) == schema
    mixed = (AGE | {"lower": Decimal(0), "places": 0}, BooleanColumn(name="flag"))
    assert opened(SCHEMA | {"columns": mixed}) == schema
    assert opened(None) is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"columns": [AGE | {"lower": 0}]}, "schema.columns[0].lower must be text in quotes, such"),
        ({"columns": [AGE | {"lower": FILL_IN}]}, "schema.columns[0].lower must be filled in"),
        ({"columns": []}, "schema.columns must be 1 to 100 columns"),
        ({"source": object()}, "schema must be of values that JSON has"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_sent(
    fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(RequestInvalid) as found:
        opened(SCHEMA | fields)
    assert str(found.value).startswith(message)
