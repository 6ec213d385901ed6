"""Watches which open datasets name a source that nobody has named them for."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from accountant.errors import LedgerFault
from streams.curator.counts import CuratorCounts
from streams.service.ledger_service import LedgerService
from streams.sources.source_access import SourceAccess
from streams.sources.source_file import SourceFile
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
_EVERY_S: Final = 30.0
"""Only servers look at a source when a dataset is opened, and not each of them knows the sources.
The log does not tell of a source either, so every dataset is looked at."""


class SourceWatch:
    """Counts these datasets, and logs each once."""

    def __init__(
        self,
        service: LedgerService,
        access: SourceAccess,
        counts: CuratorCounts,
        file: SourceFile | None = None,
    ) -> None:
        self._service = service
        self._access = access
        self._counts = counts
        self._logged = set[tuple[str, str]]()
        self._changed = asyncio.Event()
        if file is not None:
            file.on_change(lambda _: self._changed.set())

    async def run(self) -> None:
        """Look again and again, until the task is cancelled; at once after the file has changed."""
        while True:
            try:
                await self.look()
                if self._changed.is_set():
                    await self._access.log_access(self._service)
                    self._changed.clear()
            except LedgerFault as error:
                _log.warning("source_datasets_not_known", why=str(error))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_EVERY_S):
                    await self._changed.wait()

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
