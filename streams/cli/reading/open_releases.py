"""Lists releases that were or may be charged and have no result in this user's store."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from accountant.errors import BudgetError
from accountant.times import iso
from streams.cli.reading.connect import connect, settings_for
from streams.client.connection.connect import with_absolute_path
from streams.client.connection.lookups import UnknownDataset
from streams.client.releases.store import OpenRequest, ResultStore, ledger_name


class OpenRelease(msgspec.Struct):
    """A release without a result.

    Attributes:
        charged: whether the ledger has charged it; None if that is not known.
    """

    request_id: str
    dataset: str
    analyst: str
    claim: str
    purpose: str
    asked_at: str
    charged: bool | None


def open_releases(url: str, token_file: Path | None, analyst: str | None) -> list[OpenRelease]:
    """Return the releases of a ledger without a result, oldest first.

    Args:
        analyst: only theirs; None for those of everyone.
    Raises: Refused: the store cannot be used.
    """
    address = ledger_name(with_absolute_path(settings_for(url, token_file)).url)
    found = [
        each
        for each in ResultStore().open_requests()
        if each.asked.ledger == address and analyst in {None, each.asked.analyst}
    ]
    charged = [True if each.granted else None for each in found]
    if None in charged:
        # If the ledger does not answer, `charged` stays unknown; the list is still useful.
        with contextlib.suppress(BudgetError), connect(url, token_file) as ledger:
            for place, each in enumerate(found):
                if charged[place] is None:
                    asked = each.asked
                    with contextlib.suppress(UnknownDataset):
                        decision = ledger.decision(asked.dataset, asked.analyst, asked.request_id)
                        charged[place] = None if decision is None else decision.granted
    return [
        _shown(each, is_charged)
        for each, is_charged in zip(found, charged, strict=True)
        if is_charged is not False
    ]


def _shown(found: OpenRequest, charged: bool | None) -> OpenRelease:
    asked = found.asked
    return OpenRelease(
        asked.request_id,
        asked.dataset,
        asked.analyst,
        asked.claim,
        asked.purpose,
        iso(int(found.since * 1000)),
        charged,
    )
