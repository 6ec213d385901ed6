"""Names of columns that are no words: quoted in questions, and printed quoted."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from accountant.errors import RequestInvalid
from accountant.foreign_text import CONTROL
from accountant.questions import (
    Question,
    Schema,
    check_question,
    check_schema,
    encode_question,
    evaluate,
    parse_question,
    question_text,
)
from accountant.questions.schema import (
    MAX_NAME,
    BooleanColumn,
    CategoryColumn,
    NumberColumn,
    UnitColumn,
    name_text,
)
from tests.accountant.questions.schemas import SOURCE
from tests.nightly import rounds

NUMBER, GROUP, FLAG = "year of birth", "where", 'is "old"'


def schema_of(number: str, group: str, flag: str = "flag", unit: str = "unit of row") -> Schema:
    return check_schema(
        Schema(
            source=SOURCE,
            columns=(
                NumberColumn(name=number, lower="1900", upper="2030"),
                CategoryColumn(name=group, categories=("a", "b")),
                BooleanColumn(name=flag),
            ),
            unit=UnitColumn(column=unit, rows=1),
            neighbours="add_remove",
        )
    )


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ('mean("year of birth")', 'mean("year of birth")'),
        ('median("year of birth") by "where"', 'quantile("year of birth", 0.5) by "where"'),
        ('top("where", 1)', 'top("where", 1)'),
        (
            'count where "year of birth">1980 and "where" = "a" and "is ""old""" = true by "where"',
            (
                'count where "year of birth" > 1980 and "where" = \'a\' and "is ""old""" = true '
                'by "where"'
            ),
        ),
        (
            'count where not "where" in ("a") or "year of birth" is not missing',
            """count where not "where" in ('a') or "year of birth" is not missing""",
        ),
    ],
)
def test_a_quoted_name_is_printed_quoted(text: str, canonical: str) -> None:
    schema = schema_of(NUMBER, GROUP, FLAG)
    checked = parse_question(text, schema)
    assert question_text(checked.question) == canonical
    assert parse_question(canonical, schema) == checked
    decoded = msgspec.json.decode(encode_question(checked), type=Question)
    assert check_question(decoded, schema) == checked


def test_a_word_in_quotes_is_the_same_name() -> None:
    schema = schema_of("age", "region")
    plain = parse_question("mean(age) where age > 3 by region", schema)
    assert parse_question('mean("age") where "age" > 3 by "region"', schema) == plain


NAMES = st.text(min_size=1, max_size=MAX_NAME).filter(lambda name: not CONTROL.search(name))


@settings(max_examples=rounds(12, 100))
@given(NAMES, NAMES)
def test_every_name_has_one_text(number: str, group: str) -> None:
    assume(len({number, group, "flag", "unit of row"}) == 4)
    schema = schema_of(number, group)
    text = f"mean({name_text(number)}) where {name_text(number)} > 1950 by {name_text(group)}"
    checked = parse_question(text, schema)
    assert checked.column == schema.columns[0]
    assert [each.column for each in checked.groups] == [schema.columns[1]]
    assert parse_question(question_text(checked.question), schema) == checked


def test_a_question_on_a_quoted_name_has_its_rows() -> None:
    schema = schema_of(NUMBER, GROUP, FLAG)
    rows = [
        {"unit of row": str(i), NUMBER: 1970 + i, GROUP: "ab"[i % 2], FLAG: True} for i in range(9)
    ]
    checked = parse_question('sum("year of birth") where "year of birth" > 1975 by "where"', schema)
    ((a, b),) = evaluate(checked, rows, key=b"k")
    assert (int(a), int(b)) == (1976 + 1978, 1977)


@pytest.mark.parametrize("name", ["", "x" * (MAX_NAME + 1), "a\nb", "a\u2028b", "\u202e", "\ud800"])
def test_a_name_that_cannot_be_shown_is_refused(name: str) -> None:
    with pytest.raises(RequestInvalid, match=r"columns\[0\].name must be 1 to 63 characters"):
        schema_of(name, "g")
    with pytest.raises(RequestInvalid, match=r"unit.column must be 1 to 63 characters"):
        schema_of("n", "g", unit=name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mean('year of birth')", """got 'year of birth': write the name of a column as "year"""),
        ("count by where", 'got where: write the name of a column as "where"'),
        ("count where 'where' = 'a'", 'write the name of a column as "where"'),
        ('count where "years of birth" > 3', "did you mean year of birth?"),
        ("count where year of birth > 3", 'did you mean "year of birth"?'),
        ("mean(year of birth)", "quote a name of several words"),
    ],
)
def test_a_name_without_its_quotes_is_explained(text: str, message: str) -> None:
    with pytest.raises(RequestInvalid) as found:
        parse_question(text, schema_of(NUMBER, GROUP, FLAG))
    assert message in str(found.value)
