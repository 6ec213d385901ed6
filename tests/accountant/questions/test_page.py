"""The reference page of questions says what the functions do."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from accountant.claims.text import claim_text
from accountant.errors import RequestInvalid
from accountant.questions import (
    Question,
    Schema,
    Stop,
    check_question,
    check_schema,
    check_stop,
    derive,
    encode_schema,
    levels_of,
    parse_noise,
    parse_question,
    parse_stop,
)
from accountant.questions import filter_parser as filters
from accountant.questions.filter_parser import parse_filter
from accountant.questions.laws import FORMS
from accountant.questions.schema import RESERVED
from accountant.questions.statistics import WORDS
from tests.accountant.questions.schemas import replaced
from tests.every_case import check_rows

OPENS = ("docs/reference/questions.md", "docs/reference/accuracy-first.md")

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "questions.md").read_text("utf-8")
PAGE_ON_LEVELS = Path(__file__).parents[3] / "docs" / "reference" / "accuracy-first.md"
JSON = re.findall(r"```json\n(.*?)\n```", PAGE, re.DOTALL)
SCHEMA = check_schema(msgspec.json.decode(JSON[0], type=Schema))
EXAMPLES = re.findall(
    r"^\| `(.+?)` \| `(.+?)` \| (.+?) \| (.+?) \|$", PAGE.split("## Examples")[1], re.MULTILINE
)


def test_the_schema_of_the_page_is_in_its_canonical_form() -> None:
    assert encode_schema(SCHEMA).decode() == JSON[0]


def test_each_example_is_derived() -> None:
    def check_case(question: str, noise: str, added: str, with_replace: str) -> None:
        for schema, expected in (
            (SCHEMA, added),
            (replaced(SCHEMA, neighbours="replace"), with_replace),
        ):
            derivation = derive(parse_question(question, schema), parse_noise(noise))
            scales = [draw.scale for draw in derivation.draws if draw.scale is not None]
            variances = [draw.variance for draw in derivation.draws if draw.variance is not None]
            name, values = ("scale", scales) if scales else ("variance", variances)
            amounts = " and ".join(map(str, values))
            assert f"`{claim_text(derivation.claim)}`, {name} {amounts}" == expected

    check_rows(check_case, EXAMPLES)


def test_the_program_of_the_page_derives_a_claim() -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names = {"schema": SCHEMA}
    exec(program, names)
    assert claim_text(names["derivation"].claim) == "pure:0.5"  # type: ignore[attr-defined]


def test_the_page_on_accuracy_first_has_the_levels_of_its_example() -> None:
    page = PAGE_ON_LEVELS.read_text("utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names = {"schema": SCHEMA}
    exec(program, names)
    assert len(names["levels"]) == 11  # type: ignore[arg-type]
    question, noise = parse_question("count", SCHEMA), re.findall(r"for `(rho: .+?)`", page)[0]
    levels = levels_of(derive(question, parse_noise(noise)).draws[0])
    for name, shown in (
        ("text", [level.text for level in levels]),
        ("cost", [str(float(level.cost)) for level in levels]),
    ):
        assert f"| `{name}` | {' | '.join(shown)} |" in page
    for text in re.findall(r"^\| `(.+?, .+?_.+?)` \| ", page, re.MULTILINE):
        derive(question, parse_noise(text))
    rules = re.findall(r"^\| `(\w+: .+?)` \| `(\{.+?\})` \|", page, re.MULTILINE)
    assert len(rules) == 2
    for text, wire in rules:
        assert check_stop(msgspec.json.decode(wire, type=Stop)) == parse_stop(text)


def test_there_are_examples_of_every_form_of_noise() -> None:
    assert {noise.partition(":")[0] for _, noise, _, _ in EXAMPLES} == set(FORMS)


def test_every_question_of_the_page_is_one() -> None:
    section = PAGE.split("## Question")[1].split("## Filter")[0]
    statistics = [row for row in section.splitlines() if re.match(r"\| `(?!where|by|rows)\w", row)]
    named = [text for row in statistics for text in re.findall(r"`([^`]+)`", row.split(" | ")[0])]
    assert {text.partition("(")[0] for text in named} == {*WORDS}
    for text in named:
        if text != "top(region, 3)":  # the example has two regions
            parse_question(text, SCHEMA)
    clauses = re.findall(r"^\| `((?:where|by|rows) .+?)`", section, re.MULTILINE)
    assert len(clauses) == 3
    parse_question(" ".join(["count", *clauses]), SCHEMA)
    (wire,) = re.findall(r'`(\{"ask".+?\})`', section)
    check_question(msgspec.json.decode(wire, type=Question), SCHEMA)


def test_the_page_has_the_grammar_of_the_parser() -> None:
    def rules(text: str | None) -> list[str]:
        lines = [" ".join(line.split()) for line in (text or "").splitlines()]
        return [line for line in lines if re.match(r"\w+ = |\| column", line)]

    grammar = PAGE.split("## Filter")[1].split("\n- ")[0]
    assert rules(grammar) == rules(filters.__doc__)


def test_the_page_names_every_reserved_word_and_an_error() -> None:
    for word in RESERVED:
        assert f"`{word}`" in PAGE
    shown = re.search(r"`(where must have .+?)`", PAGE)
    assert shown is not None
    with pytest.raises(RequestInvalid) as raised:
        parse_filter("age > 'x'", SCHEMA, field="where")
    assert str(raised.value) == shown[1]
