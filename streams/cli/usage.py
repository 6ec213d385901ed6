"""`accountant usage`: a dataset's usage by analyst, purpose, day or month."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import explain_errors, fail
from streams.cli.printing.out_file import Out, Replace, output_in
from streams.cli.reading.options import DEFAULT_URL, Json, TokenFile, Url

if TYPE_CHECKING:
    from rich.table import Table


class _By(StrEnum):
    ANALYST = "analyst"
    PURPOSE = "purpose"
    DAY = "day"
    MONTH = "month"


_SHOWN: Final = ("granted", "refused", "spent", "unit", "last_decided_at")


def usage(
    name: Annotated[str, typer.Argument(help="Name of the dataset.")],
    by: Annotated[
        _By, typer.Option(help="Group the rows by this; days and months are in UTC.")
    ] = _By.ANALYST,
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
    """Show the usage of a dataset, from its first request on.

    Reads the usage index of `accountant serve`, and only the newest part of the log; without an
    index it reads the whole log. Exit code 1 if the dataset was never opened.
    """
    from streams.cli.printing.output import print_csv, print_json, stdout
    from streams.cli.printing.parquet_file import check_parquet, write_parquet_file
    from streams.cli.reading.usage_rows import usage_rows

    if csv + json + (parquet is not None) > 1:
        fail(Exit.USAGE, "--csv, --json and --parquet exclude one another")
    if parquet is not None:
        if out is not None:
            fail(Exit.USAGE, "--parquet names a file already, so --out has no use")
        check_parquet()
    with explain_errors():
        is_table = not csv and not json and parquet is None
        rows, beside = usage_rows(url, name, by.value, token_file, beside=is_table)
        if parquet is not None:
            write_parquet_file(parquet, _columns(by.value), rows)
            return
        with output_in(out, replace=replace):
            if csv:
                print_csv(_columns(by.value), rows)
            elif json:
                for row in rows:
                    print_json(row)
            else:
                stdout().print(_table(name, by.value, rows))
                if beside:
                    stdout().print(beside, soft_wrap=True)


def _columns(by: str) -> tuple[str, ...]:
    return "dataset", by, *_SHOWN


def _table(name: str, by: str, rows: Sequence[dict[str, Any]]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from accountant.display.numbers import spent_amount, symbol
    from accountant.display.times import moment

    unit = rows[0]["unit"] if rows else ""
    table = Table(
        title=f"{name} by {by}", title_justify="left", header_style="bold", box=SIMPLE_HEAD
    )
    table.add_column(by, style="bold", overflow="fold")
    table.add_column("granted", justify="right")
    table.add_column("refused", justify="right")
    table.add_column(f"spent ({symbol(unit)})" if unit else "spent", justify="right")
    table.add_column("last decision", overflow="fold")
    for row in rows:
        counts = str(row["granted"]), str(row["refused"]), spent_amount(row["spent"])
        table.add_row(Text(row[by]), *counts, moment(row["last_decided_at"]))
    return table
