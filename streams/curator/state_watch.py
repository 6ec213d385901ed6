"""Compares the schemas of open datasets with their sources, and says what does not match."""

from __future__ import annotations

import asyncio
from typing import Final

from msgspec import UNSET

from accountant.errors import LedgerFault
from accountant.questions import Schema
from streams.answers.published_states import PublishedState, StatePublisher
from streams.curator.counts import CuratorCounts
from streams.service.ledger_service import LedgerService
from streams.sources.confirmed_facts import column_words
from streams.sources.source_access import SourceAccess, SourceReader
from streams.sources.source_facts import UNCLEAN, check_schema
from streams.sources.source_states import SourceState, SourceStates, finding_words
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
_EVERY_S: Final = 30.0
_START_S: Final = 5.0
"""The longest wait at a start: a database may hang, and its questions are refused until then."""


class StateWatch:
    """Logs and counts what sources lack, when it starts and when that changes.

    Args:
        access: whose source is looked at.
        publisher: where servers without data read what to refuse; None where there are none.
    """

    def __init__(
        self,
        service: LedgerService,
        access: SourceAccess,
        states: SourceStates,
        counts: CuratorCounts,
        publisher: StatePublisher | None = None,
    ) -> None:
        self._service = service
        self._access = access
        self._states = states
        self._counts = counts
        self._publisher = publisher
        self._logged = dict[str, str]()

    async def start(self) -> None:
        """Look once before the first question. Raises: Unavailable, Refused: as `look`."""
        look = asyncio.ensure_future(self.look())
        done, _ = await asyncio.wait({look}, timeout=_START_S)
        if not done:
            look.cancel()
            await asyncio.wait({look})
        elif (error := look.exception()) is not None:
            raise error

    async def run(self) -> None:
        """Look again and again, until the task is cancelled."""
        while True:
            await asyncio.sleep(_EVERY_S)
            try:
                await self.look()
            except LedgerFault as error:
                _log.warning("sources_not_compared", why=str(error))

    async def look(self) -> None:
        """Look once at each source.

        Raises: Unavailable: the datasets are not known now, or it cannot be published. Refused:
            another curator has started.
        """
        schemas = dict[str, Schema]()
        for view in await self._service.datasets():
            if view.schema is UNSET or view.state == "closed":
                continue
            reader = SourceReader.of(view, view.schema)
            if await self._access.refusal(self._service, reader) is None:
                schemas[view.dataset] = view.schema
        self._states.keep(set(schemas.values()))
        closed, lacking = dict[str, int](), dict[str, int]()
        published = list[PublishedState]()
        for dataset, schema in schemas.items():
            state = await asyncio.to_thread(self._states.state, schema, again=True)
            name = schema.source.name
            closed[name] = max(closed.get(name, 0), int(state.cause != ""))
            published.append(self._states.published(dataset, schema, state))
            found = self._log_findings(dataset, schema, state)
            lacking[name] = lacking.get(name, 0) + found
        self._counts.closed_sources, self._counts.source_findings = closed, lacking
        self._logged = {each: words for each, words in self._logged.items() if each in schemas}
        if self._publisher is not None:
            await self._publisher.publish_states(published)

    def _log_findings(self, dataset: str, schema: Schema, state: SourceState) -> int:
        """Log what a source lacks for a dataset, if that is new; return how much it is."""
        if state.present is None:
            return 0
        findings = check_schema(schema, state.present)
        unclean = [each for each in findings if each.kind in UNCLEAN]
        words, source = finding_words(unclean), schema.source.name
        if words != self._logged.get(dataset):
            self._logged[dataset] = words
            if unclean:
                _log.warning(
                    "source_lacks_columns",
                    dataset=dataset,
                    source=source,
                    lacks=words,
                    has=column_words(state.present),
                    then="questions on them are refused",
                )
            else:
                _log.info("source_matches_schema", dataset=dataset, source=source)
        return len(unclean)
