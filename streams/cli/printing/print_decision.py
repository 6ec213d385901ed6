"""Prints a decision before anything else is asked about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accountant.display.limits import Whole
    from accountant.records import Decision


def print_decision(
    decision: Decision,
    *,
    as_json: bool,
    why: Callable[[], str] | None = None,
    then: Callable[[], str | None] | None = None,
    hint: Callable[[], str | None] | None = None,
    waiting: str = "",
    whole: Whole = "budget",
) -> None:
    """Print a decision, and then what explains it; as JSON the decision alone.

    A refusal is printed up to its reason before that is explained.

    Args:
        why: returns the reason of a refusal, or of the one that is repeated, "" if it is not known.
        then: returns how many more such requests fit.
        hint: returns what to do next.
        waiting: of a refusal, whether waiting helps, if that is known.
        whole: what the dataset's limits are parts of.
    """
    from accountant.records import encode
    from accountant.records.http_bodies import served_decision
    from streams.cli.printing.output import stdout, write_lines

    if as_json:
        write_lines([served_decision(encode(decision))])
        return
    from streams.cli.printing.tables import explain

    first, *lines = explain(decision, whole=whole)
    stdout().print(first, soft_wrap=True)
    decided = decision.first or decision
    if why is not None and decided.reason is not None:
        _, *lines = explain(decision, why=why(), waiting=waiting, whole=whole)
    for line in lines:
        stdout().print(line, soft_wrap=True)
    if then is not None and (words := then()) is not None:
        stdout().print(f"  then  {words}", soft_wrap=True)
    if hint is not None and (words := hint()) is not None:
        stdout().print(f"  next  {words}", soft_wrap=True, markup=False)
