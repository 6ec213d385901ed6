"""Prints a decision, or at least reports that it was made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams.cli.printing.exits import complain

if TYPE_CHECKING:
    from accountant.records import Decision


def print_decision(
    decision: Decision,
    *,
    as_json: bool,
    why: str = "",
    then: str | None = None,
    hint: str | None = None,
) -> None:
    """Print a decision; if that fails, report on stderr that it was made, with its id.

    Args:
        why: the reason of a refusal, if it is known.
        then: how many more such requests fit.
        hint: what to do next.
    """
    from accountant.records import encode
    from accountant.records.http_bodies import served_decision
    from streams.cli.printing.output import stdout, write_lines
    from streams.cli.printing.safe_streams import output_error
    from streams.cli.printing.tables import explain, id_of

    if as_json:
        write_lines([served_decision(encode(decision))])
    else:
        for line in explain(decision, why=why):
            stdout().print(line, soft_wrap=True)
        if then is not None:
            stdout().print(f"  then  {then}", soft_wrap=True)
        if hint is not None:
            stdout().print(f"  next  {hint}", soft_wrap=True, markup=False)
    if output_error() is not None:
        name = id_of(decision)
        found = f"`accountant log export --id {name}` shows the decision"
        message = f"request {name} was decided ({decision.outcome}), but it could not be printed"
        complain(message, hint=found)
