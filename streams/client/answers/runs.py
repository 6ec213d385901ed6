"""Whether a function can be run for a grant, checked before the ledger is asked."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from accountant.errors import RequestInvalid


def check_run(run: object, *, awaited: bool) -> None:
    """Check that a function can be called without arguments, and draws an answer.

    Args:
        awaited: the client is the one for event loops, which can await it.
    Raises: RequestInvalid.
    """
    if not callable(run):
        raise RequestInvalid("run", "must be a function that draws the answer", run)
    given = run if isinstance(run, functools.partial) else functools.partial(run)
    try:
        signature = inspect.signature(given.func)
    except (TypeError, ValueError):  # of some functions in C nothing is known
        signature = None
    if signature is not None:
        try:
            signature.bind(*given.args, **given.keywords)
        except TypeError as error:
            rule = f"must be a function that can be called without arguments ({error})"
            raise RequestInvalid("run", rule, run) from None
    if not awaited and _is(inspect.iscoroutinefunction, run):
        rule = "must not be asynchronous here: AsyncAccountant takes such a function"
        raise RequestInvalid("run", rule, run)
    if _is(inspect.isgeneratorfunction, run) or _is(inspect.isasyncgenfunction, run):
        raise RequestInvalid("run", "must return its answer, and not yield it", run)


def _is(kind: Callable[[Any], bool], run: object) -> bool:
    return kind(run) or kind(getattr(type(run), "__call__", None))  # noqa: B004
