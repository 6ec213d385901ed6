"""Checks that a mechanism can be called and its result stored, before the ledger is asked."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Awaitable, Callable
from typing import Any

from accountant.errors import RequestInvalid


def check_run(run: object, *, awaited: bool, kinds: tuple[type, ...] | None) -> None:
    """Check that a function can be called without arguments, and returns a result.

    Args:
        awaited: the async client calls it, and can await it.
        kinds: the types of results that can be stored; None if unknown.
    Raises: RequestInvalid.
    """
    if not callable(run):
        raise RequestInvalid("run", "must be a function that draws the result", run)
    function = run if isinstance(run, functools.partial) else functools.partial(run)
    try:
        signature = inspect.signature(function.func)
    except (TypeError, ValueError):  # some C functions have no signature
        signature = None
    if signature is not None:
        try:
            signature.bind(*function.args, **function.keywords)
        except TypeError as error:
            rule = f"must be a function that can be called without arguments ({error})"
            raise RequestInvalid("run", rule, run) from None
    if not awaited and _is_kind(inspect.iscoroutinefunction, run):
        rule = "must not be asynchronous: use AsyncAccountant for an asynchronous function"
        raise RequestInvalid("run", rule, run)
    if _is_kind(inspect.isgeneratorfunction, run) or _is_kind(inspect.isasyncgenfunction, run):
        raise RequestInvalid("run", "must return its result, not yield it", run)
    return_type = _return_type(function.func)
    if kinds is not None and _cannot_be(return_type, kinds):
        rule = f"must return a type that can be stored, not {return_type}; else pass a `codec`"
        raise RequestInvalid("run", rule, run)


def _return_type(function: object) -> object:
    """Return the declared return type of a function, Any if unknown."""
    called = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    try:
        return typing.get_type_hints(called).get("return", Any)
    except Exception:  # annotations may name anything
        return Any


def _cannot_be(return_type: object, kinds: tuple[type, ...]) -> bool:
    """Whether no value of a declared type can be of one of some types."""
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
