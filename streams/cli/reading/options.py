"""Options that several commands share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final

import typer

from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import fail

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
_SOURCES: Final = typer.Option(
    "--data-sources",
    envvar="ACCOUNTANT_DATA_SOURCES",
    metavar="FILE",
    help="JSON file that says where the data of each source are.",
    dir_okay=False,
    exists=True,
)
SourcesFile = Annotated[Path, _SOURCES]
OptionalSourcesFile = Annotated[Path | None, _SOURCES]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        help="File with your token for the server. Default: ACCOUNTANT_TOKEN, else "
        "ACCOUNTANT_TOKEN_FILE.",
        dir_okay=False,
        exists=True,
    ),
]
Archives = Annotated[
    list[Path] | None,
    typer.Option(
        "--archive",
        help="An archive of the log's beginning; name all of them, in order.",
        dir_okay=False,
        exists=True,
    ),
]
Receipts = Annotated[
    list[Path] | None,
    typer.Option(
        "--receipt",
        help="Receipts that the log must contain: JSON lines, or a store of results.",
        dir_okay=False,
        exists=True,
    ),
]
AnswerStoreFile = Annotated[
    Path | None,
    typer.Option(
        "--answers",
        help="Store of the answers to the log's questions. Default: the one beside a ledger's "
        "file.",
        dir_okay=False,
        exists=True,
    ),
]
ReplaceLedger = Annotated[
    bool,
    typer.Option(
        "--replace-ledger",
        help="Create the ledger's file although another ledger with decisions was at its path. "
        "That ledger's budgets are given up for ever.",
    ),
]
RETRY_HELP: Final = (
    "Id (UUIDv7) of an earlier attempt, to retry it. Under another name, or on another dataset, "
    "it is a new request."
)
Dataset = Annotated[str, typer.Argument(help="Name of the dataset.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]
UNIT_HELP = "Privacy unit of the dataset, such as person."
NEIGHBOURS_HELP = "Neighbouring relation: add_remove or replace."
UnitOption = Annotated[
    str | None,
    typer.Option("--unit", help="Privacy unit of the claim. Default: the dataset's."),
]
NeighboursOption = Annotated[
    str | None,
    typer.Option(
        "--neighbours",
        help="Neighbouring relation: add_remove or replace. Default: the dataset's.",
    ),
]
Wait = Annotated[
    float,
    typer.Option(min=0, max=600, help="Seconds to wait for the decision; over HTTP at most 30."),
]
_DURATION: Final = re.compile(r"P(?:([1-9][0-9]{0,4})D|T([1-9][0-9]{0,4})H)")
_HOUR_MS: Final = 3_600_000


def parse_until(text: str, now: int) -> str:
    """Return the end of a membership or a limit, in the log's format.

    Args:
        now: milliseconds since 1970.
    """
    from accountant.times import from_iso

    until = _parse_moment("--until", text, now, sign=1)
    if from_iso(until) <= now:
        hint = "name a later day; to end it now, use `accountant member remove` or `limit remove`"
        fail(Exit.USAGE, f"--until {text} is in the past: it is {until}", hint=hint)
    return until


def parse_past(option: str, text: str, now: int) -> str:
    """Return a moment in the log's format; a length of time counts back from now.

    Args:
        now: milliseconds since 1970.
    """
    return _parse_moment(option, text, now, sign=-1)


def _parse_moment(option: str, text: str, now: int, *, sign: int) -> str:
    """Return a day, a time, or now moved by a length of time; a wrong text ends the command."""
    from accountant.errors import RequestInvalid
    from accountant.records.coerce import coerce_until
    from accountant.times import iso

    match = _DURATION.fullmatch(text)
    if match is not None:
        days, hours = match.groups()
        moved = now + sign * _HOUR_MS * (int(days) * 24 if days else int(hours))
        return iso(max(0, moved))
    try:
        return coerce_until(text)
    except RequestInvalid as error:
        rule = "must be P90D, PT8H, a day such as 2027-01-01, or a time with its zone"
        fail(Exit.USAGE, f"{option} {rule}, got {error.value}")
