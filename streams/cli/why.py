"""`accountant why`: the usage of a dataset's budget, and how much longer it lasts."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import explain_errors, fail
from streams.cli.reading.options import DEFAULT_URL, Json, TokenFile, Url

if TYPE_CHECKING:
    from accountant.views.why import WhyBy


class _WhyTable(StrEnum):
    ANALYST = "analyst"
    TEAM = "team"
    PURPOSE = "purpose"
    WEEK = "week"
    REASON = "reason"
    GRANTS = "grants"
    FORECAST = "forecast"


def why(
    name: Annotated[str, typer.Argument(help="Name of the dataset.")],
    by: Annotated[
        _WhyTable | None,
        typer.Option(help="Show only this table. Default: the most important tables."),
    ] = None,
    me: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Also forecast the budget of this analyst."),
    ] = None,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    csv: Annotated[
        bool, typer.Option("--csv", help="Print one table as CSV, with a header.")
    ] = False,
    json: Json = False,
) -> None:
    """Show what used a dataset's budget, and how much longer it lasts.

    Shows usage by analyst, team, purpose and week, the largest grants, and the reasons of refusals.
    Forecasts when the budget runs out at the rate of the last day, week and month, with a range; a
    forecast is no promise. Reads the same data as `accountant usage`. Exit code 1 if the dataset
    was never opened.
    """
    from accountant.display.spending import beside_words
    from accountant.views.why import columns, rows
    from streams.cli.printing.output import print_csv, print_json, stdout
    from streams.cli.printing.why import hidden_table, overview, sentences, table_by
    from streams.cli.reading.why_reader import read_why

    if csv and json:
        fail(Exit.USAGE, "--csv and --json exclude one another")
    with explain_errors():
        counts_reasons = by is _WhyTable.REASON and not json
        found, view = read_why(url, name, me, token_file, reasons=counts_reasons)
    if json:
        print_json(found)
    elif csv:
        chosen: WhyBy = _WhyTable.ANALYST.value if by is None else by.value
        print_csv(columns(chosen), rows(found, chosen))
    else:
        out = stdout()
        for line in sentences(found, me):
            out.print(line, soft_wrap=True)
        if beside := beside_words(view):
            out.print(beside, soft_wrap=True)
        if by is not None and (note := hidden_table(found, by.value)):
            out.print(note, soft_wrap=True)
            return
        tables = overview(found, me) if by is None else [table_by(found, by.value, me)]
        for table in tables:
            out.print(table)
