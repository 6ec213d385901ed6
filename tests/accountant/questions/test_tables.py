"""Statistics and laws are one entry each, and what is on the wire or in tests agrees with them."""

from __future__ import annotations

from typing import get_args

from accountant.questions import parse_question
from accountant.questions.laws import FORMS, LAWS
from accountant.questions.noise import NoiseLaw
from accountant.questions.sensitivity import SelectionName, VectorName
from accountant.questions.statistics import STATISTICS
from accountant.questions.statistics.base import QuestionClauses
from tests.accountant.answers.runs import RUNS, SESSIONS, ask
from tests.accountant.questions.schemas import CENSUS


def test_the_wire_has_each_law_and_no_other() -> None:
    assert {*get_args(NoiseLaw)} == {*LAWS}


def test_each_form_of_noise_has_one_default() -> None:
    for form in FORMS:
        assert [law.name for law in LAWS.values() if form in law.default_of] == [FORMS[form][0]]


def test_the_wire_has_each_part_of_a_statistic_and_no_other() -> None:
    drawn = {
        draw.statistic.name for text, noise in RUNS for draw in ask(text, noise).derivation.draws
    }
    assert {*get_args(VectorName), *get_args(SelectionName)} == drawn


def test_each_statistic_with_each_law_is_run() -> None:
    texts = {text for text, _ in RUNS}
    each = [alone for text in texts for alone in parse_question(text, CENSUS).alone]
    assert {one.statistic.name for one in each} == {*STATISTICS}
    every = [*RUNS, *[(text, noise) for text, noise, _ in SESSIONS]]
    drawn = {draw.law for text, noise in every for draw in ask(text, noise).derivation.draws}
    assert drawn == {*LAWS, "gumbel"}


def test_each_argument_is_a_field() -> None:
    for statistic in STATISTICS.values():
        # Width and clamp belong to the column's text.
        of_column = {"column", "clamp", "width"}
        fields = {*statistic.__struct_fields__} - of_column - {*QuestionClauses.__struct_fields__}
        assert fields == {argument.name for argument in statistic.arguments}
        for given in statistic.shorthands.values():
            assert fields >= {*given}
