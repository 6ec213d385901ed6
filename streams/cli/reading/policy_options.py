"""What is wrong with a policy, in the words of the options or the file that gave it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import typer

from accountant.errors import RequestInvalid
from streams.cli.printing.exits import Exit, fail

if TYPE_CHECKING:
    from accountant.policy import Policy

_OPTIONS: Final = frozenset(
    {
        "filter",
        "epsilon",
        "rho",
        "delta",
        "delta_for_claims",
        "unit",
        "neighbours",
        "horizon",
        "error",
        "confidence",
        "sensitivity",
    }
)
_HINTS: Final = {
    "delta": "add --delta 1e-6, or --filter basic",
    "epsilon": "--epsilon 1, or --filter zcdp for a budget of rho",
    "epsilon_ex_post": "add --epsilon-ex-post 1",
    "rho": "--filter zcdp with --rho, or another filter with --epsilon",
}
_NUMBER: Final = re.compile(r"Expected `str.*`, got `(?:int|float)` - at `\$\.(.*)`")
_WORDS: Final = frozenset({"filter", "unit", "neighbours", "horizon"})
"""Fields of a policy that are text, but no amounts."""


@contextmanager
def named_options(*more: str) -> Iterator[None]:
    """End the command where a policy breaks a rule, naming the option.

    Args:
        more: fields of a policy that this command has options for, beside the usual ones.
    """
    try:
        yield
    except RequestInvalid as error:
        field = error.field.removeprefix("policy.").partition("[")[0]
        missing = error.value in {"None", "nothing"}
        if field not in _OPTIONS and field not in more:
            if not missing:
                raise
            other = "no option gives it; `accountant dataset open --policy FILE` takes every field"
            fail(Exit.USAGE, f"{error.field} {error.rule}", hint=other)
        got = "" if missing else f", got {error.value}"
        wanted = missing or "filter" in error.rule
        option = "--" + field.replace("_", "-")
        hint = _HINTS.get(field) if wanted else None
        if field == "epsilon" and "left out" in error.rule:
            hint = _HINTS["rho"]
        fail(Exit.USAGE, f"{option} {error.rule}{got}", hint=hint)


def excluded(context: typer.Context, option: str, names: Iterable[str], *, why: str) -> None:
    """End the command where other options were typed beside one that replaces them.

    Args:
        names: the others, as the command's parameters are called; a default does not count,
            nor what a variable of the environment gave.
        why: what the option says instead of them.
    """
    given = {name for name in names if _is_typed(context, name)}
    typed = [parameter.opts[0] for parameter in context.command.params if parameter.name in given]
    if typed:
        *first, last = typed
        others = f"{', '.join(first)} and {last}" if first else last
        fail(Exit.USAGE, f"{option} excludes {others}: {why}")


def _is_typed(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def policy_in(path: Path) -> Policy:
    """Return the policy that a file holds as JSON; end the command where it holds none."""
    from accountant.records import decode_policy

    try:
        return decode_policy(path.read_bytes())
    except msgspec.MsgspecError as error:
        number = _NUMBER.fullmatch(str(error))
        if number is None or number[1] in _WORDS:
            fail(Exit.USAGE, f"{path} is no policy: {error}")
        rule = 'must be text, as amounts are written, such as "1"'
        fail(Exit.USAGE, f"{path} is no policy: {number[1]} {rule}, got a number")
    except UnicodeDecodeError as error:
        fail(Exit.USAGE, f"{path} is no policy: it must be UTF-8: {error.reason}")
