"""One test of a rule over many cases: it checks every case, and reports all that fail at once."""

from __future__ import annotations

import functools
import inspect
import itertools
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import pytest

# `pytest.raises` raises the second. A skipped case would silently end a test of many.
_FAILURES: Final = (AssertionError, pytest.fail.Exception, pytest.skip.Exception)
_MOST_CHARACTERS: Final = 200


class _Cases:
    """Collects what is wrong with the cases of a test."""

    def __init__(self) -> None:
        self._count = 0
        self._name = ""
        self._wrong: list[str] = []
        self._errors: list[Exception] = []

    def case(self, values: Mapping[str, object]) -> _Cases:
        self._count += 1
        self._name = ", ".join(f"{name}={_short(value)}" for name, value in values.items())
        return self

    def __enter__(self) -> None:
        """Begin with the case that was named last."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        if isinstance(error, _FAILURES):
            self._wrong.append(f"{self._name}: {error}{_place(error)}")
        elif isinstance(error, Exception):
            error.add_note(f"in the case {self._name}")
            self._errors.append(error)
            print(f"{self._name}: {error!r}{_place(error)}")
        elif error is not None:  # an interrupt, or the time limit
            error.add_note(f"in the case {self._name}")
            return False
        return True

    def report(self) -> None:
        """Fail with the cases that are wrong, or else raise the first other error."""
        wrong = self._wrong
        assert not wrong, f"{len(wrong)} of {self._count} cases fail:\n" + "\n".join(wrong)
        for error in self._errors:
            raise error
        assert self._count, "there is no case"


def _place(error: BaseException) -> str:
    """Return the line of the tests that raised an error."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [each for each in frames if "site-packages" not in each.filename]
    return f" ({ours[-1].name}, line {ours[-1].lineno})" if ours else ""


def _short(value: object) -> str:
    try:
        text = repr(value)
    except Exception:  # an integer of more than 4,300 digits, or an invalid object
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}..."


def check_each(check: Callable[..., object], *axes: Iterable[Any]) -> None:
    """Check every combination of values, one axis for each parameter, as `check_rows` does."""
    check_rows(check, itertools.product(*axes))


def check_rows(check: Callable[..., object], rows: Iterable[Iterable[Any]]) -> None:
    """Check every row of arguments; fail once, with each case that fails and why.

    Args:
        check: raises an AssertionError if a case is wrong. Any other error is printed; the first
            of them is raised at the end, unless an assertion has failed.
        rows: the arguments of each case; none at all is a failure.
    """
    names, found = list(inspect.signature(check).parameters), _Cases()
    for row in rows:
        values = list(row)
        with found.case(dict(zip(names, values, strict=True))):
            check(*values)
    found.report()


def every_case(
    names: str | Sequence[str], cases: Iterable[Any] | Callable[[], Iterable[Any]]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that makes one test of all cases.

    It replaces `pytest.mark.parametrize` where a case needs nothing of its own: all cases share
    the fixtures of the test. It reports failures as `check_rows` does.

    Args:
        names: of the parameters, as for `parametrize`.
        cases: their values, or a function that returns these when the test runs.
    """
    alone = isinstance(names, str) and "," not in names
    listed = [each.strip() for each in names.split(",")] if isinstance(names, str) else list(names)

    def values(case: Any) -> dict[str, Any]:
        return dict(zip(listed, (case,) if alone else case, strict=True))

    def all_cases() -> Iterable[Any]:
        return cases if isinstance(cases, Iterable) else cases()

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(test):

            @functools.wraps(test)
            async def all_of(*args: Any, **fixtures: Any) -> None:
                found = _Cases()
                for case in all_cases():
                    more = values(case)
                    with found.case(more):
                        await test(*args, **fixtures, **more)
                found.report()
        else:

            @functools.wraps(test)
            def all_of(*args: Any, **fixtures: Any) -> None:
                found = _Cases()
                for case in all_cases():
                    more = values(case)
                    with found.case(more):
                        test(*args, **fixtures, **more)
                found.report()

        # Pytest reads the fixtures of a test from its signature.
        signature = inspect.signature(test)
        left = [each for name, each in signature.parameters.items() if name not in listed]
        assert len(left) == len(signature.parameters) - len(listed), f"{test} lacks a parameter"
        all_of.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return all_of

    return decorate
