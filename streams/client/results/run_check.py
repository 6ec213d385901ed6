"""Whether a function can be run for a grant, checked before the ledger is asked."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Awaitable, Callable
from typing import Any

from accountant.errors import RequestInvalid


def check_run(run: object, *, awaited: bool, kinds: tuple[type, ...] | None) -> None:
    """Check that a function can be called without arguments, and draws an answer.

    Args:
        awaited: the client is the one for event loops, which can await it.
        kinds: the types of answers that can be stored; None where that is not known.
    Raises: RequestInvalid.
    """
    if not callable(run):
        raise RequestInvalid("run", "must be a function that draws the answer", run)
    function = run if isinstance(run, functools.partial) else functools.partial(run)
    try:
        signature = inspect.signature(function.func)
    except (TypeError, ValueError):  # of some functions in C nothing is known
        signature = None
    if signature is not None:
        try:
            signature.bind(*function.args, **function.keywords)
        except TypeError as error:
            rule = f"must be a function that can be called without arguments ({error})"
            raise RequestInvalid("run", rule, run) from None
    if not awaited and _is_kind(inspect.iscoroutinefunction, run):
        rule = "must not be asynchronous here: AsyncAccountant takes such a function"
        raise RequestInvalid("run", rule, run)
    if _is_kind(inspect.isgeneratorfunction, run) or _is_kind(inspect.isasyncgenfunction, run):
        raise RequestInvalid("run", "must return its answer, and not yield it", run)
    return_type = _return_type(function.func)
    if kinds is not None and _cannot_be(return_type, kinds):
        rule = f"must return what can be stored, and not {return_type}, or be given a `codec`"
        raise RequestInvalid("run", rule, run)


def _return_type(function: object) -> object:
    """Return the type that a function is declared to return, Any where that is not known."""
    called = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    try:
        return typing.get_type_hints(called).get("return", Any)
    except Exception:  # annotations may name anything
        return Any


def _cannot_be(return_type: object, kinds: tuple[type, ...]) -> bool:
    """Tell whether no value of a declared type is of one of some types."""
    origin = typing.get_origin(return_type)
    if origin in {typing.Union, types.UnionType}:
        return all(_cannot_be(each, kinds) for each in typing.get_args(return_type))
    kind = return_type if origin is None else origin
    if kind is Any or not inspect.isclass(kind) or issubclass(kind, Awaitable):
        return False
    try:
        return not any(issubclass(each, kind) for each in kinds)
    except TypeError:  # some protocols
        return False


def _is_kind(kind: Callable[[Any], bool], run: object) -> bool:
    return kind(run) or kind(getattr(type(run), "__call__", None))  # noqa: B004
