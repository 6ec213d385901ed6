"""What is wrong with a policy that was given by options, in the words of the options."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from accountant.errors import RequestInvalid
from streams.cli.exits import Exit, fail

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


def policy_in(path: Path) -> Policy:
    """Return the policy that a file holds as JSON; end the command where it holds none."""
    from accountant.records import decode_policy

    try:
        return decode_policy(path.read_bytes())
    except msgspec.MsgspecError as error:
        fail(Exit.USAGE, f"{path} is no policy: {error}")
