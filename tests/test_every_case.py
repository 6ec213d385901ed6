"""A test of many cases reports each case that fails, and why."""

from __future__ import annotations

import pytest

from tests.every_case import check_every, every_case


def below(limit: int, *numbers: int) -> None:
    for number in numbers:
        assert number < limit, f"{number} is too large"


def test_every_case_that_fails_is_named() -> None:
    with pytest.raises(AssertionError) as failed:
        check_every([(3, 1), (3, 4), (3, 2), (3, 5)], below)
    assert "2 of 4 cases fail" in str(failed.value)
    assert "3, 4: 4 is too large" in str(failed.value)
    assert "3, 5: 5 is too large" in str(failed.value)
    check_every([(3, 1), (3, 2)], below)


def test_a_missing_error_is_a_failure_of_its_case() -> None:
    def fails(text: str) -> None:
        with pytest.raises(ValueError, match="invalid literal"):
            int(text)

    with pytest.raises(AssertionError, match=r"12: DID NOT RAISE") as failed:
        check_every(["x", "12"], fails)
    assert "1 of 2 cases fail" in str(failed.value)


def test_another_error_is_raised_with_a_note_of_its_case() -> None:
    with pytest.raises(ValueError, match="invalid literal") as raised:
        check_every(["12", "x", "y"], int)
    assert raised.value.__notes__ == ["in the case x"]


def test_a_failed_assertion_is_reported_although_another_case_raised_an_error_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def check(text: str) -> None:
        assert int(text) < 4, "too large"

    with pytest.raises(AssertionError, match="1 of 3 cases fail") as failed:
        check_every(["x", "5", "3"], check)
    assert "5: too large" in str(failed.value)
    assert capsys.readouterr().out.startswith("x: ValueError(")


def test_a_skipped_case_is_a_failure() -> None:
    with pytest.raises(AssertionError, match="2 of 2 cases fail"):
        check_every(["one", "two"], pytest.skip)


def test_no_case_at_all_is_a_failure() -> None:
    with pytest.raises(AssertionError, match="there is no case"):
        check_every([], int)


@pytest.fixture(scope="module")
def limit() -> int:
    return 4


@every_case(("number", "more"), [(1, 2), (3, 0)])
@every_case("other", [1, 2])
def test_a_decorated_test_has_its_fixtures_and_its_cases(
    limit: int, number: int, more: int, other: int
) -> None:
    below(limit, number, more, other)


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
    assert "5: 5 is too large" in str(failed.value)
