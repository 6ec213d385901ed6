"""Datasets that were opened without authentication stay open to everybody: the log says which."""

from __future__ import annotations

import asyncio
from typing import Final

from msgspec import UNSET

from streams.errors import Unavailable
from streams.service.ledger_service import Service
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
_MOST_NAMED: Final = 3
_DO: Final = (
    "give each dataset an owner: `accountant member set NAME OWNER --role owner "
    "--as-administrator`. The owner sets its members and then restricts it to them: `accountant "
    "dataset amend NAME --access members`. To keep it open to everybody, `--access anyone`"
)


async def log_open_datasets(service: Service) -> None:
    """Log, in one line, how many datasets are open to everybody without an owner's decision."""
    try:
        found = await find_open_datasets(service)
    except Unavailable as error:
        _log.warning("open_datasets_not_known", why=str(error))
        return
    if found:
        names = ", ".join(found[:_MOST_NAMED]) + (", ..." if len(found) > _MOST_NAMED else "")
        _log.warning("datasets_open_to_anybody", count=len(found), names=names, do=_DO)


async def find_open_datasets(service: Service) -> list[str]:
    """Return the datasets that are open to everybody without an owner's decision, by name.

    Raises: Unavailable: the datasets are not known now.
    """
    found = list[str]()
    for view in await service.datasets():
        if not view.closed and view.policy.access is UNSET:
            found.append(view.dataset)
        # Very many datasets must not delay requests, which the server already accepts.
        await asyncio.sleep(0)
    return found
