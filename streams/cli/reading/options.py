"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from accountant.filters import FILTERS

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
*_FIRST, _LAST = FILTERS
FilterOption = Annotated[str, typer.Option("--filter", help=f"{', '.join(_FIRST)} or {_LAST}.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]
Unit = Annotated[str, typer.Option("--unit", help="Unit of privacy, as the dataset's policy has.")]
NeighboursOption = Annotated[
    str, typer.Option("--neighbours", help="Neighbouring relation: add_remove or replace.")
]
Wait = Annotated[
    float,
    typer.Option(
        min=0, max=600, help="Seconds to wait for the decision; through a door at most 30."
    ),
]
