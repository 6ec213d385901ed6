"""Datasets of before a door knew who asks: they stay open, and whoever runs the door is told."""

from __future__ import annotations

import asyncio
from typing import Final

from msgspec import UNSET

from streams.errors import Unavailable
from streams.logs import get_logger
from streams.service import Service

_log = get_logger(__name__)
_MOST_NAMED: Final = 3
_DO: Final = (
    "give each an owner (`accountant member set NAME OWNER --role owner --as-administrator`), who "
    "sets its members and then closes it to others (`accountant dataset amend NAME --access "
    "members`); or says that anybody may ask (`--access anyone`)"
)


async def say_what_is_open(service: Service) -> None:
    """Log, in one line, on how many datasets everybody may ask though no owner has said so."""
    try:
        found = await left_open(service)
    except Unavailable as error:
        _log.warning("open_datasets_not_known", why=str(error))
        return
    if found:
        names = ", ".join(found[:_MOST_NAMED]) + (", ..." if len(found) > _MOST_NAMED else "")
        _log.warning("datasets_open_to_anybody", count=len(found), names=names, do=_DO)


async def left_open(service: Service) -> list[str]:
    """Return the datasets on which everybody may ask though no owner has said so, by name.

    Raises: Unavailable: that is not known now.
    """
    found = list[str]()
    for view in await service.datasets():
        if not view.closed and view.policy.access is UNSET:
            found.append(view.dataset)
        await asyncio.sleep(0)  # there may be very many, and requests come already
    return found
