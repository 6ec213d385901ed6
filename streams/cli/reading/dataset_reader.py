"""How every dataset stands, wherever the ledger is; a ledger's file is only read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from accountant.views.datasets import DatasetView
from streams.cli.printing.exits import Exit, fail
from streams.cli.reading.views.base import Views
from streams.cli.reading.views.of_client import ClientViews
from streams.cli.reading.views.of_file import FileViews

if TYPE_CHECKING:
    pass


def open_views(url: str, token_file: Path | None = None) -> Views:
    """Return the views of the ledger at an address.

    Raises: AddressInvalid, Unavailable, NoSuchLedger, Refused.
    """
    from streams.address import ledger_url

    where = ledger_url(url)
    if where.kind == "sqlite":
        path = Path(where.target)
        if not path.is_file():
            from streams.client.connect import check_there

            check_there(path)
        return FileViews(path)
    from streams.cli.reading.connected import connected

    return ClientViews(connected(url, token_file))


def opened(name: str, url: str, token_file: Path | None = None) -> DatasetView:
    """Return one dataset as it stands; end the command if it was never opened."""
    with open_views(url, token_file) as views:
        found = views.one(name)
    if found is None:
        fail_unopened(name)
    return found


def fail_unopened(name: str) -> NoReturn:
    """End the command for a dataset that was never opened."""
    hint = "`accountant dataset list` shows those there are"
    fail(Exit.FAILED, f"no dataset {name} was ever opened", hint=hint)
