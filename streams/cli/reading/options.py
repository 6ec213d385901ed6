"""Options that several commands share."""

from __future__ import annotations

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
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]
UNIT_HELP = "Unit of privacy, as the dataset's policy has."
Unit = Annotated[str, typer.Option("--unit", help=UNIT_HELP)]
NEIGHBOURS_HELP = "Neighbouring relation: add_remove or replace."
NeighboursOption = Annotated[str, typer.Option("--neighbours", help=NEIGHBOURS_HELP)]
Wait = Annotated[
    float,
    typer.Option(
        min=0, max=600, help="Seconds to wait for the decision; through a door at most 30."
    ),
]
