"""A test over many cases fails for each case that is wrong, and says which these are."""

from __future__ import annotations

import pytest

from tests.check_each import check_each, check_rows


def test_every_wrong_case_is_named_with_its_failure() -> None:
    checked = []

    def check_case(number: int, word: str) -> None:
        checked.append((number, word))
        assert number < 2, f"{number} is too large"
        if word == "wrong":
            with pytest.raises(ValueError, match="wrong"):
                int("1")

    with pytest.raises(AssertionError) as raised:
        check_each(check_case, [1, 2], ["right", "wrong"])
    first, *rest = str(raised.value).splitlines()
    assert first == "3 of 4 cases are wrong:"
    assert "number=1, word='wrong': DID NOT RAISE" in rest[0]
    assert any(line.startswith("number=2, word='right': 2 is too large") for line in rest)
    assert any(line.startswith("number=2, word='wrong': 2 is too large") for line in rest)
    assert checked == [(1, "right"), (1, "wrong"), (2, "right"), (2, "wrong")]


def test_an_error_hides_no_failure_and_is_raised_if_it_is_alone() -> None:
    def check_case(divisor: int, limit: int) -> None:
        assert 1 // divisor < limit

    check_rows(check_case, [(1, 2), (2, 1)])
    with pytest.raises(AssertionError, match=r"(?s)2 of 3 cases .*divisor=1, limit=1: .*divisor=0"):
        check_rows(check_case, [(0, 1), (1, 2), (1, 1)])
    with pytest.raises(ZeroDivisionError) as raised:
        check_rows(check_case, [(0, 1), (1, 2)])
    assert raised.value.__notes__ == ["in the case divisor=0, limit=1"]


def test_no_case_at_all_and_a_skipped_case_are_failures() -> None:
    with pytest.raises(AssertionError, match="there is no case"):
        check_each(pytest.fail, [])
    with pytest.raises(AssertionError, match="one case cannot skip a test"):
        check_each(pytest.skip, ["reason"])


def test_a_value_without_a_short_text_is_named_by_its_beginning_or_type() -> None:
    def check_case(value: object) -> None:
        assert value is None, "wrong"

    with pytest.raises(AssertionError) as raised:
        check_each(check_case, ["x" * 1000, 10**5000])
    lines = str(raised.value).splitlines()
    assert any(line.startswith("value='xxx") and "xxx...: wrong" in line for line in lines)
    assert any(line.startswith("value=a value of type int: wrong") for line in lines)
