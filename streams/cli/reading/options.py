"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_URL = "sqlite:///accountant.db"

Url = Annotated[
    str,
    typer.Option(
        "--url",
        envvar="ACCOUNTANT_URL",
        help="The ledger: sqlite:///FILE, http://HOST:PORT or kafka://HOST:PORT.",
    ),
]
LogUrl = Annotated[
    str,
    typer.Option(
        "--url",
        envvar="ACCOUNTANT_URL",
        help="The ledger: sqlite:///FILE or kafka://HOST:PORT.",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        help="File with your token for the ledger's door; without it ACCOUNTANT_TOKEN, or "
        "ACCOUNTANT_TOKEN_FILE.",
        dir_okay=False,
        exists=True,
    ),
]
By = Annotated[
    str | None,
    typer.Option(
        envvar="ACCOUNTANT_OWNER",
        help="Who you are; with a token by default its name, else `owner`, which nobody verifies.",
    ),
]
Reason = Annotated[str, typer.Option(help="For people, at most 200 characters.")]
Archives = Annotated[
    list[Path] | None,
    typer.Option(
        "--archive",
        help="An archive of the log's beginning; all of them, in their order.",
        dir_okay=False,
        exists=True,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]
UNIT_HELP = "Unit of privacy, as the dataset's policy has."
NEIGHBOURS_HELP = "Neighbouring relation: add_remove or replace."
UnitOption = Annotated[
    str | None,
    typer.Option("--unit", help="Unit of privacy; without it the one of the dataset's policy."),
]
NeighboursOption = Annotated[
    str | None,
    typer.Option(
        "--neighbours",
        help="add_remove or replace; without it the one of the dataset's policy.",
    ),
]
Wait = Annotated[
    float,
    typer.Option(
        min=0, max=600, help="Seconds to wait for the decision; through a door at most 30."
    ),
]
