"""`accountant report`: what was asked, granted and spent on a dataset in a period."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import explain_errors, fail
from streams.cli.printing.out_file import Out, Replace, output_in
from streams.cli.reading.options import DEFAULT_URL, Json, TokenFile, Url

if TYPE_CHECKING:
    from rich.table import Table

    from accountant.views.period_report import PeriodReport, ReportBy


class _ReportTable(StrEnum):
    MONTH = "month"
    TEAM = "team"
    ANALYST = "analyst"
    PURPOSE = "purpose"
    OUTCOME = "outcome"


def report(
    name: Annotated[str, typer.Argument(help="Name of the dataset.")],
    by: Annotated[
        _ReportTable, typer.Option(help="Group the requests of each month by this.")
    ] = _ReportTable.MONTH,
    month: Annotated[
        str | None,
        typer.Option("--month", metavar="MONTH", help="Only this month, such as 2026-10, in UTC."),
    ] = None,
    first: Annotated[
        str | None, typer.Option("--from", metavar="DAY", help="The first day, such as 2026-10-01.")
    ] = None,
    last: Annotated[
        str | None, typer.Option("--to", metavar="DAY", help="The last day, such as 2026-10-31.")
    ] = None,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV, with a header.")] = False,
    json: Json = False,
    parquet: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a Parquet file (extra `parquet`).")
    ] = None,
    out: Out = None,
    replace: Replace = False,
) -> None:
    """Show what was asked, granted and spent on a dataset in a period, by month.

    Days and months are in UTC; a month that has not ended is marked. Reads every decision from the
    first day on, since a reservation may be given back later. Exit code 1 if the dataset was never
    opened.
    """
    from accountant.display.reports import report_notes
    from accountant.views.period import parse_period
    from accountant.views.period_report import report_columns, report_rows
    from streams.cli.printing.output import print_csv, print_json, stdout
    from streams.cli.printing.parquet_file import check_parquet, write_parquet_file
    from streams.cli.reading.dataset_reader import get_dataset, reader

    if csv + json + (parquet is not None) > 1:
        fail(Exit.USAGE, "--csv, --json and --parquet exclude one another")
    if parquet is not None:
        if out is not None:
            fail(Exit.USAGE, "--parquet names a file already, so --out has no use")
        check_parquet()
    table: ReportBy = by.value
    with explain_errors():
        period = parse_period(month or "", first or "", last or "")
        with reader(url, token_file) as ledger:
            get_dataset(ledger, name)
            found = ledger.report(name, first=period.first, last=period.last)
        columns, rows = report_columns(table), report_rows(found, table)
        if parquet is not None:
            write_parquet_file(parquet, columns, rows)
            return
        with output_in(out, replace=replace):
            if csv:
                print_csv(columns, rows)
            elif json:
                print_json(found)
            else:
                stdout().print(_table(found, table))
                for sentence in report_notes(found, table):
                    stdout().print(sentence, soft_wrap=True)


def _table(found: PeriodReport, by: ReportBy) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from accountant.display.numbers import spent_amount, symbol
    from accountant.display.reports import key_words, month_words

    table = Table(
        title=f"{found.dataset} by {by}",
        title_justify="left",
        header_style="bold",
        box=SIMPLE_HEAD,
    )
    table.add_column("month", style="bold", overflow="fold")
    if by != "month":
        table.add_column(by, overflow="fold")
    table.add_column("granted", justify="right")
    table.add_column("refused", justify="right")
    table.add_column(f"spent ({symbol(found.unit)})", justify="right")
    for row in found.table(by):
        key = [] if by == "month" else [Text(key_words(row, by))]
        counts = str(row.granted), str(row.refused), spent_amount(row.spent)
        table.add_row(month_words(row), *key, *counts)
    return table
