"""Tell a decision, or at least that there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams.cli.printing.exits import complain

if TYPE_CHECKING:
    from accountant.records import Decision


def tell(decision: Decision, *, as_json: bool, then: str | None = None) -> None:
    """Print a decision; where that fails, say on stderr that it was made, with its id.

    Args:
        then: what people are told besides.
    """
    from accountant.records import encode
    from accountant.records.http_bodies import served_decision
    from streams.cli.printing.lasting_streams import output_error
    from streams.cli.printing.output import stdout, write_lines
    from streams.cli.printing.tables import explain, id_of

    if as_json:
        write_lines([served_decision(encode(decision))])
    else:
        for line in explain(decision):
            stdout().print(line, soft_wrap=True)
        if then is not None:
            stdout().print(f"  then  {then}", soft_wrap=True)
    if output_error() is not None:
        name = id_of(decision)
        hint = f"`accountant log export --id {name}` shows the decision"
        complain(f"request {name} was decided ({decision.outcome}), and nobody was told", hint=hint)
