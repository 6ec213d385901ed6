"""A rule over many cases as one test, which names every case that breaks it."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import pytest

# `pytest.raises` fails with the second.
_FAILURES = (AssertionError, pytest.fail.Exception)
_MOST_CHARACTERS = 200


def check_each(check: Callable[..., None], *axes: Iterable[Any]) -> None:
    """Check every combination of values, one axis for each parameter of `check`.

    Raises: AssertionError: see `check_rows`.
    """
    check_rows(check, itertools.product(*axes))


def check_rows(check: Callable[..., None], rows: Iterable[Iterable[Any]]) -> None:
    """Check every row of arguments, and go on after a failure.

    Raises:
        AssertionError: a check failed; it names each case that did, with its failure. Or there
            was nothing to check.
        Exception: the error of a case, if no check failed by an assertion.
    """
    names = list(inspect.signature(check).parameters)
    wrong, errors, count = list[str](), list[Exception](), 0
    for row in rows:
        values, count = list(row), count + 1
        try:
            check(*values)
        except _FAILURES as failure:
            wrong.append(f"{_named(names, values)}: {failure}")
        except pytest.skip.Exception:
            raise AssertionError("one case cannot skip a test") from None
        except Exception as error:
            error.add_note(f"in the case {_named(names, values)}")
            errors.append(error)
    if wrong:
        wrong += [f"{error!r} {error.__notes__[-1]}" for error in errors]
        raise AssertionError(f"{len(wrong)} of {count} cases are wrong:\n" + "\n".join(wrong))
    if errors:
        raise errors[0]
    assert count, "there is no case to check"


def _named(names: Iterable[str], values: Iterable[Any]) -> str:
    return ", ".join(f"{name}={_short(value)}" for name, value in zip(names, values, strict=True))


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python writes no integer of more than 4,300 digits
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}..."
