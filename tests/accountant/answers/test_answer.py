"""Answers have one canonical form, and say what they cost."""

from __future__ import annotations

from fractions import Fraction

import msgspec
import pytest

from accountant.answers import FAILED, FAILED_SESSION, decode_answer, encode_answer, failed_answer
from accountant.claims.promises import promise
from tests.accountant.answers.runs import RUNS, answer, ask, zeros
from tests.accountant.noise.laws import bits_of
from tests.every_case import check_rows


def test_an_answer_is_read_from_its_own_bytes_alone() -> None:
    def check_case(text: str, noise: str) -> None:
        question = ask(text, noise)
        first = answer(question, zeros(question), bits_of(1))
        data = encode_answer(first)
        assert decode_answer(data) == first
        for other in (data + b" ", data.replace(b'"version":1', b'"version":2'), data[:-1], b"{}"):
            with pytest.raises(ValueError, match="answer"):
                decode_answer(other)

    check_rows(check_case, RUNS)


@pytest.mark.parametrize("names", [("values",), ("low",), ("low", "high")])
def test_an_answer_has_as_many_values_as_groups(names: tuple[str, ...]) -> None:
    question = ask("count by region", "epsilon: 1")
    first = answer(question, zeros(question), bits_of(1))
    fewer = msgspec.structs.replace(first, **{name: getattr(first, name)[:-1] for name in names})
    with pytest.raises(ValueError, match="answer must have"):
        decode_answer(encode_answer(fewer))


def test_a_failed_answer_says_the_same_whatever_the_cause() -> None:
    question = ask("mean(age) by region", "rho: 1")
    failed = failed_answer(question.granted)
    assert (failed.outcome, failed.reason) == ("failed", FAILED)
    assert not any((failed.values, failed.low, failed.groups, failed.statistics))
    assert failed.cost == {"rho": "1"}
    assert decode_answer(encode_answer(failed)) == failed
    assert list(failed.rows()) == []


def test_a_failed_session_says_that_it_may_not_have_begun() -> None:
    failed = failed_answer(ask("count", "rho: 1, gaussian_refinement", "error: 9").granted)
    assert failed.reason == FAILED_SESSION
    assert decode_answer(encode_answer(failed)) == failed


def test_each_row_has_its_group() -> None:
    question = ask("top(region, 2) by smoker, job", "epsilon: 1")
    rows = list(answer(question, zeros(question), bits_of(1)).rows())
    assert [(row.group, row.rank) for row in rows[:4]] == [
        ((False, "yes"), 0),
        ((False, "yes"), 1),
        ((False, "no"), 0),
        ((False, "no"), 1),
    ]
    assert len(rows) == 8
    assert all(row.low is None and row.high is None for row in rows)
    question = ask("histogram(region) by smoker", "epsilon: 1")
    groups = [row.group for row in answer(question, zeros(question), bits_of(1)).rows()]
    assert groups == list(question.checked.each_group())


def test_the_cost_is_that_of_the_claim_rounded_up() -> None:
    def check_case(text: str, noise: str) -> None:
        question = ask(text, noise)
        ((name, amount),) = failed_answer(question.granted).cost.items()
        assert name == ("epsilon" if "epsilon" in noise or noise.startswith("error") else "rho")
        parts = [each.claim for each in question.derivation.draws]
        times = getattr(question.derivation.claim, "times", 1)
        worth = [promise(part).rho if name == "rho" else promise(part).epsilon for part in parts]
        exact = times * sum(Fraction(each or 0) for each in worth)
        assert exact <= Fraction(amount) <= exact * (1 + Fraction(1, 10**12))
        wanted = Fraction(question.noise.text)
        if question.noise.form == name and "rounded" not in noise:
            assert wanted * (1 - Fraction(1, 10**12)) <= Fraction(amount) <= wanted

    check_rows(check_case, RUNS)
