"""Watches which open datasets name a source that nobody has named them for."""

from __future__ import annotations

import asyncio
from typing import Final

from accountant.errors import LedgerFault
from streams.curator.counts import CuratorCounts
from streams.logs import get_logger
from streams.service import LedgerService
from streams.sources.source_access import SourceAccess

_log = get_logger(__name__)
_EVERY_S: Final = 30.0
"""Only servers look at a source when a dataset is opened, and not each of them knows the sources.
The log does not tell of a source either, so every dataset is looked at."""


class SourceWatch:
    """Counts these datasets, and logs each once."""

    def __init__(self, service: LedgerService, access: SourceAccess, counts: CuratorCounts) -> None:
        self._service = service
        self._access = access
        self._counts = counts
        self._logged = set[tuple[str, str]]()

    async def run(self) -> None:
        """Look again and again, until the task is cancelled."""
        while True:
            try:
                await self.look()
            except LedgerFault as error:
                _log.warning("source_datasets_not_known", why=str(error))
            await asyncio.sleep(_EVERY_S)

    async def look(self) -> None:
        """Look once. Raises: Unavailable: the datasets are not known now."""
        found = await self._access.unexpected(self._service)
        self._counts.unexpected_datasets = {name: len(each) for name, each in found.items()}
        every = {(source, dataset) for source, names in found.items() for dataset in names}
        for source, dataset in sorted(every - self._logged):
            _log.warning(
                "source_named_by_another_dataset",
                source=source,
                dataset=dataset,
                do="if that is meant, name it in `datasets` of the source",
            )
        self._logged = every
