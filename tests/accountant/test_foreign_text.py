"""What others wrote cannot act where it is shown."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accountant.errors import BudgetError, RequestInvalid
from accountant.foreign_text import (
    csv_cell,
    csv_text,
    escape_control,
    escape_control_json,
    escape_json,
    escape_lines,
    escape_text,
)
from streams.notebooks.html_table import grid, table

HOSTILE = "a\x1b[2J\r\n\t\x00\x7f\x9b\u061c\u200e\u202e\u2028\u2029\u2066\ud800é"


PREPENDED = frozenset("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2")
PREPENDED |= {"\U000110bd", "\U000110cd"}


def test_a_control_character_is_escaped() -> None:
    assert escape_text("a\x1b[2J\n\u202eé") == "a\\u001b[2J\\u000a\\u202eé"
    assert escape_lines("a\x1b\nb\t") == "a\\u001b\nb\\u0009"


INVISIBLE = "\u00ad\u034f\u115f\u180e\u200b\u200d\u2060\u2800\u3164\ufe0f\ufeff\U000e0041"
INVISIBLE += "\ue000\uf8ff\ufdd0\ufffe\uffff\U0001d159\U000f0000\U0010ffff"


def test_an_invisible_character_is_shown_as_its_escape() -> None:
    for each in INVISIBLE:
        number = ord(each)
        shown = f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
        assert escape_text(each) == escape_lines(each) == shown
        assert escape_json(f'"{each}"'.encode()).isascii()
        assert json.loads(escape_json(f'"{each}"'.encode())) == each
        assert each not in csv_cell(each)
        assert each not in str(BudgetError(each))
        # A log says what it said before: this is shown, and the record stays as it is.
        assert BudgetError(each).recorded == RequestInvalid("a", each, each).value == each
    assert escape_control("a\x1b\u200b\n") == "a\\u001b\u200b\\u000a"
    assert escape_control("a\x1b\n", lines=True) == "a\\u001b\n"
    body = '{"purpose": "a\u200b\x7f\U000e0041"}'.encode()
    assert escape_control_json(body) == '{"purpose": "a\u200b\\u007f\U000e0041"}'.encode()


@given(st.text())
def test_escaped_text_is_one_line_and_unchanged_by_escaping_again(text: str) -> None:
    shown = escape_text(text + HOSTILE)
    assert escape_text(shown) == escape_lines(shown) == shown
    assert len(shown.splitlines()) == 1
    shown.encode()
    categories = {unicodedata.category(each) for each in shown}
    assert not categories & {"Cc", "Zl", "Zp", "Cs"}
    # Of format characters those stay that are seen, such as signs before numbers.
    assert {each for each in shown if unicodedata.category(each) == "Cf"} <= PREPENDED


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_json_with_escapes_means_the_same(text: str) -> None:
    value = {"a": [text, HOSTILE[:-2]], text: 1}
    shown = escape_json(b"\t" + json.dumps(value, ensure_ascii=False).encode() + b"\n")
    assert json.loads(shown) == value
    assert escape_lines(shown.decode().replace("\t", "")) == shown.decode().replace("\t", "")


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t", "\r", "\n", " =", "\uff1d", "\x00="])
def test_a_cell_is_no_formula(begin: str) -> None:
    text = csv_text(["a"], [{"a": f"{begin}1+1"}])
    ((cell,),) = list(csv.reader(io.StringIO(text)))[1:]
    assert cell.startswith("'")


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (1, "1"),
        (-1, "-1"),
        (0.5, "0.5"),
        (None, ""),
        ("", ""),
        ("0.0001", "0.0001"),
        ("2026-11-23T10:00:00.000Z", "2026-11-23T10:00:00.000Z"),
        ("ana@example.org", "ana@example.org"),
        ("-1", '"\'-1"'),
        ('a "b", c;d', '"a ""b"", c;d"'),
        ("(others)", '"(others)"'),
        # A spreadsheet that separates cells by semicolons begins one in the middle of the text.
        ("x;=1+1", '"x;\'=1+1"'),
        ('x"; =1+1', '"x"";\' =1+1"'),
        ("a|@b;c", '"a|\'@b;c"'),
    ],
)
def test_numbers_and_names_stay_and_all_else_is_quoted(value: object, cell: str) -> None:
    assert csv_cell(value) == cell


@given(st.lists(st.text(), min_size=1))
def test_a_table_of_any_texts_has_their_rows_and_cells(texts: list[str]) -> None:
    table = csv_text(["a", "b"], [{"a": text, "b": 7} for text in texts])
    rows = list(csv.reader(io.StringIO(table)))
    assert [row[1] for row in rows] == ["b", *["7"] * len(texts)]
    for text, (cell, _) in zip(texts, rows[1:], strict=True):
        assert re.sub("([;|])'", r"\1", cell.removeprefix("'")) == re.sub(
            "([;|])'", r"\1", escape_text(text).removeprefix("'")
        )
        assert cell[:1] not in tuple("=+-@")


def test_html_of_notebooks_and_messages_of_errors_show_escapes() -> None:
    for text in (
        table(HOSTILE, [(HOSTILE, HOSTILE)]),
        grid(HOSTILE, [HOSTILE], [[HOSTILE]]),
        str(RequestInvalid(HOSTILE, HOSTILE, HOSTILE)),
        str(BudgetError(HOSTILE)).replace("\n", ""),
    ):
        assert escape_text(text) == text
