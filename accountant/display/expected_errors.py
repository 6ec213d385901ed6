"""The expected errors of a question and its price, in words."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET

from accountant.advice.preview import Preview
from accountant.display.numbers import counting_cost, spent_line
from accountant.questions.expected_error import ExpectedError


def error_words(expected: ExpectedError) -> str:
    """Return how far the values of a statistic may be from the exact ones."""
    if expected.rank_error is not UNSET:
        rows = f"{expected.rank_error} rows from the best with 95 % confidence"
        return f"{expected.statistic}: each choice is at most {rows}"
    if expected.error is None:
        return f"{expected.statistic}: {expected.why}"
    most = "at most " if expected.is_largest else ""
    return f"{expected.statistic}: each value {most}± {expected.error} with 95 % confidence"


def price_table(preview: Preview) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the head and the rows of a question at several prices; no rows of a claim."""
    expected = preview.expected_errors or ()
    head = ("noise", "cost", *(each.statistic for each in expected), "fit now")
    return head, list(_rows(preview))


def _rows(preview: Preview) -> Iterator[tuple[str, ...]]:
    is_choice = [each.rank_error is not UNSET for each in preview.expected_errors or ()]
    for price in preview.prices or ():
        errors = [
            "" if each is None else f"{each} rows" if of_rows else f"± {each}"
            for each, of_rows in zip(price.errors, is_choice, strict=True)
        ]
        fits = "any number" if price.fits is None else f"{price.fits:,}"
        yield price.noise, spent_line(counting_cost(price.cost, preview.left)), *errors, fits
