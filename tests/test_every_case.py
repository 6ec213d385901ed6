"""A test of many cases reports each case that fails, and why."""

from __future__ import annotations

import pytest

from tests.every_case import check_each, check_rows, every_case


def below(limit: int, number: int) -> None:
    assert number < limit, f"{number} is too large"


def number_in(text: str) -> int:
    return int(text)


def skipped(reason: str) -> None:
    pytest.skip(reason)


def test_every_case_that_fails_is_named() -> None:
    with pytest.raises(AssertionError) as failed:
        check_rows(below, [(3, 1), (3, 4), (3, 2), (3, 5)])
    assert "2 of 4 cases fail" in str(failed.value)
    assert "limit=3, number=4: 4 is too large" in str(failed.value)
    assert "limit=3, number=5: 5 is too large" in str(failed.value)
    check_rows(below, [(3, 1), (3, 2)])


def test_every_combination_of_values_is_checked() -> None:
    with pytest.raises(AssertionError, match=r"3 of 4 cases fail"):
        check_each(below, [1, 2], [1, 2])
    check_each(below, [3, 4], [1, 2])


def test_a_missing_error_is_a_failure_of_its_case() -> None:
    def fails(text: str) -> None:
        with pytest.raises(ValueError, match="invalid literal"):
            int(text)

    with pytest.raises(AssertionError, match=r"text='12': DID NOT RAISE") as failed:
        check_each(fails, ["x", "12"])
    assert "1 of 2 cases fail" in str(failed.value)


def test_another_error_is_raised_with_a_note_of_its_case() -> None:
    with pytest.raises(ValueError, match="invalid literal") as raised:
        check_each(number_in, ["12", "x", "y"])
    assert raised.value.__notes__ == ["in the case text='x'"]


def test_a_failed_assertion_is_reported_although_another_case_raised_an_error_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def check(text: str) -> None:
        assert int(text) < 4, "too large"

    with pytest.raises(AssertionError, match="1 of 3 cases fail") as failed:
        check_each(check, ["x", "5", "3"])
    assert "text='5': too large" in str(failed.value)
    assert capsys.readouterr().out.startswith("text='x': ValueError(")


def test_a_skipped_case_is_a_failure() -> None:
    with pytest.raises(AssertionError, match="2 of 2 cases fail"):
        check_rows(skipped, [["one"], ["two"]])


def test_no_case_at_all_is_a_failure() -> None:
    with pytest.raises(AssertionError, match="there is no case"):
        check_each(below, [], [])


@pytest.fixture(scope="module")
def limit() -> int:
    return 4


@every_case(("number", "more"), [(1, 2), (3, 0)])
@every_case("other", [1, 2])
def test_a_decorated_test_has_its_fixtures_and_its_cases(
    limit: int, number: int, more: int, other: int
) -> None:
    for value in (number, more, other):
        below(limit, value)


@every_case("number", [1, 2])
async def test_a_decorated_test_may_be_a_coroutine(limit: int, number: int) -> None:
    below(limit, number)


def test_a_decorated_test_names_every_case_that_fails() -> None:
    @every_case("number", [1, 4, 2, 5])
    def decorated(limit: int, number: int) -> None:
        below(limit, number)

    with pytest.raises(AssertionError) as failed:
        decorated(limit=3)
    assert "2 of 4 cases fail" in str(failed.value)
    assert "number=5: 5 is too large" in str(failed.value)


def test_a_value_without_a_short_text_is_named_by_its_beginning_or_type() -> None:
    def check_case(value: object) -> None:
        assert value is None, "wrong"

    with pytest.raises(AssertionError) as raised:
        check_each(check_case, ["x" * 1000, 10**5000])
    lines = str(raised.value).splitlines()
    assert any(line.startswith("value='xxx") and "xxx...: wrong" in line for line in lines)
    assert any(line.startswith("value=a value of type int: wrong") for line in lines)
