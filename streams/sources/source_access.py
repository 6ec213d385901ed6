"""Which dataset may read which source: by the file of sources, and by what is open already.

A dataset has a budget of its own, so a second dataset on one source reads it past the budget of the
first. Two rules bound that. A source answers the datasets that its field `datasets` names. And
datasets on one source share a population: their budgets add up where it has a joint guarantee, and
otherwise its view says why not.

Nothing here reads data. The process that reads them asks before each question; servers ask before
a record is appended, so that nobody pays for a question that will not run.
"""

from __future__ import annotations

import asyncio
import copy
import glob
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Self

from msgspec import UNSET

from accountant.questions import Schema
from accountant.suggest import closest
from accountant.times import iso
from accountant.views.datasets import DatasetView
from streams.errors import Unavailable
from streams.service.ledger_service import LedgerService
from streams.settings import Settings
from streams.settings.access import listed
from streams.sources.postgresql import databases_of
from streams.sources.quoted import table_names
from streams.sources.source_settings import (
    DuckdbSource,
    PostgresqlSource,
    SourceSettings,
)
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)

Unlisted = Literal["nobody", "population"]
"""What a source without `datasets` answers: no dataset, or every dataset of one population."""

RefusalKind = Literal["not_named", "population", "order", "second"]

_ANSWERS: Final[dict[Unlisted, str]] = {
    "nobody": "NO DATASET",
    "population": "each dataset that is opened on it, if all are of one population",
}
_NEVER: Final = ":"  # above all digits, so above all times


@dataclass(frozen=True, slots=True)
class SourceRefusal:
    """Why a dataset does not read a source.

    Attributes:
        kind: `second` may be insisted on; the others may not.
        what: the rule, and what to do.
    """

    kind: RefusalKind
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReader:
    """A dataset whose questions read a source.

    Attributes:
        source: as the dataset's schema names it.
        population: "" without one. The generations of a lifetime share one: that adds them up.
        opened_at: None of a dataset that is not open yet.
    """

    dataset: str
    source: str
    population: str
    opened_at: str | None = None

    @classmethod
    def of(cls, view: DatasetView, schema: Schema) -> Self:
        """Return an open dataset as a reader."""
        return cls(
            dataset=view.dataset,
            source=schema.source.name,
            population=view.policy.population or _of_generations(view),
            opened_at=view.opened_at,
        )

    @property
    def order(self) -> tuple[str, str]:
        """Sorts readers by when they were opened."""
        return self.opened_at or _NEVER, self.dataset


@dataclass(frozen=True, slots=True)
class _Beside:
    """The datasets that may read the same data, and the time before which they are in order."""

    readers: Sequence[SourceReader]
    certain: str

    @property
    def first(self) -> SourceReader:
        return min(self.readers, key=_order)

    @property
    def is_ordered(self) -> bool:
        """Tell whether it is known which one was opened first, if there are several."""
        if len(self.readers) == 1:
            return True
        first, second = (each.order[0] for each in sorted(self.readers, key=_order)[:2])
        return first < min(second, self.certain)

    def shares_population(self, reader: SourceReader) -> bool:
        """Tell whether a reader is the first one on its data, or of the first one's population."""
        first = self.first
        if len(self.readers) == 1:
            return True
        if self.is_ordered:
            return first == reader or first.population == reader.population != ""
        # Each may have been the first one.
        return {each.population for each in self.readers} == {reader.population} != {""}


class SourceAccess:
    """Says whether a dataset may read a source.

    Args:
        unlisted: what a source without `datasets` answers.
        opened_by: who may open datasets, for the log.

    Attributes:
        generation: how often `use` has replaced the sources.
    """

    def __init__(
        self, sources: Mapping[str, SourceSettings], unlisted: Unlisted, *, opened_by: str = ""
    ) -> None:
        self._sources = dict(sources)
        self._unlisted = unlisted
        self._opened_by = opened_by
        self.generation = 0

    def use(self, sources: Mapping[str, SourceSettings]) -> None:
        """Go by the sources of a file that has changed, from the next call on.

        `generation` tells one rule from the next: what one has allowed, another may refuse.
        """
        self._sources = dict(sources)
        self.generation += 1

    def has(self, source: str) -> bool:
        """Tell whether the file has a source, whoever may read it."""
        return source in self._sources

    async def refusal(
        self, service: LedgerService, reader: SourceReader, *, new: bool = False
    ) -> SourceRefusal | None:
        """Return why a dataset does not read its source, None if it may.

        Args:
            new: a second dataset on the source is meant; nobody is asked back.
        Raises: Unavailable: it is not known now which of the source's datasets are open.
        """
        # Of one rule from the first line to the last: `use` leaves a copy as it is.
        return await copy.copy(self)._refusal(service, reader, new=new)

    async def _refusal(
        self, service: LedgerService, reader: SourceReader, *, new: bool
    ) -> SourceRefusal | None:
        settings = self._sources.get(reader.source)
        if settings is None or not self._may_list(settings, reader.dataset):
            return self._unnamed(reader)
        same = await self._same_data(reader.source)
        views = await self._views_of(service, same)
        beside = self._beside(service, views, same, reader)
        refused = self._refusal_beside(reader, settings, beside)
        is_second = len(beside.readers) > 1 and settings.datasets is UNSET
        if refused is None and is_second and reader.opened_at is None and not new:
            return SourceRefusal("second", _second(reader, beside.first.dataset))
        return refused

    async def unexpected(self, service: LedgerService) -> dict[str, list[str]]:
        """Return, by source, the open datasets that name it although nobody has named them for it.

        These are the refused ones, and without `datasets` all but the first. A dataset that this
        process does not know yet is missing.
        """
        return await copy.copy(self)._unexpected(service)

    async def _unexpected(self, service: LedgerService) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {name: [] for name in self._sources}
        views = await service.datasets()
        readers = [each for each in _readers_in(views) if each.source in found]
        for name, settings in self._sources.items():
            own = sorted((each for each in readers if each.source == name), key=_order)
            if not own:
                continue
            same = await self._same_data(name)
            beside = self._beside(service, views, same)
            for reader in own:
                is_second = settings.datasets is UNSET and reader != own[0]
                refused = not self._may_list(settings, reader.dataset) or (
                    self._refusal_beside(reader, settings, beside) is not None
                )
                if is_second or refused:
                    found[name].append(reader.dataset)
        return found

    async def log_access(self, service: LedgerService) -> None:
        """Log which datasets read each source, and who may open them."""
        for name, source in self._sources.items():
            if source.datasets is UNSET:
                answers = _ANSWERS[self._unlisted]
                _log.warning(
                    "source_without_datasets",
                    source=name,
                    answers=answers,
                    opened_by=self._opened_by,
                    do='name them in the file of sources: "datasets": ["NAME"]',
                )
                continue
            absent = [each for each in source.datasets if await service.dataset(each) is None]
            unknown = [each for each in absent if not _is_known(service, each)]
            _log.info(
                "source_datasets",
                source=name,
                datasets=", ".join(source.datasets) or "none",
                # Whoever opens one of these names chooses its analysts.
                not_open=", ".join(each for each in absent if each not in unknown) or None,
                not_known=", ".join(unknown) or None,
                opened_by=self._opened_by,
            )

    def _may_list(self, settings: SourceSettings, dataset: str) -> bool:
        """Tell whether the file lets a dataset read a source, whatever else is open."""
        if settings.datasets is UNSET:
            return self._unlisted != "nobody"
        return dataset in settings.datasets

    def _unnamed(self, reader: SourceReader) -> SourceRefusal | None:
        # Without authentication a source may be added later; until then nothing can be read.
        if reader.source not in self._sources and self._unlisted != "nobody":
            return None
        # Names are shown only where everyone who reaches the server may read everything.
        settings = None if self._unlisted == "nobody" else self._sources.get(reader.source)
        names = () if settings is None or settings.datasets is UNSET else settings.datasets
        return SourceRefusal("not_named", _not_named(reader, closest(reader.dataset, names)))

    def _refusal_beside(
        self, reader: SourceReader, settings: SourceSettings, beside: _Beside
    ) -> SourceRefusal | None:
        if settings.datasets is UNSET and not beside.is_ordered:
            return SourceRefusal("order", _not_ordered(reader))
        if not beside.shares_population(reader):
            return SourceRefusal("population", _other_population(reader))
        return None

    async def _views_of(self, service: LedgerService, same: Iterable[str]) -> list[DatasetView]:
        """Return the datasets that may read some sources: those named, or all.

        Raises: Unavailable: one of those named may be open, and is not known.
        """
        names = set[str]()
        for source in same:
            datasets = self._sources[source].datasets
            if datasets is not UNSET:
                names.update(datasets)
            elif self._unlisted != "nobody":
                return await service.datasets()
        for name in names:
            service.check_is_known(name)
        found = [await service.dataset(name) for name in sorted(names)]
        return [view for view in found if view is not None]

    def _beside(
        self,
        service: LedgerService,
        views: Iterable[DatasetView],
        same: Collection[str],
        *opening: SourceReader,
    ) -> _Beside:
        """Return those among `views` that may read some sources, and those of `opening`."""
        ordered = service.ordered_before()
        readers = {
            each.dataset: each
            for each in (*_readers_in(views), *opening)
            if each.source in same and self._may_list(self._sources[each.source], each.dataset)
        }
        return _Beside(list(readers.values()), _NEVER if ordered is None else iso(ordered))

    async def _same_data(self, name: str) -> frozenset[str]:
        """Return the sources that share a file or table with one, itself included."""
        if len(self._sources) == 1:
            return frozenset({name})
        return await asyncio.to_thread(_sharing, name, self._sources)


def source_access(sources: Mapping[str, SourceSettings], settings: Settings) -> SourceAccess:
    """Return the rule for sources under these settings."""
    if settings.authenticates:
        openers = ", ".join(["administrators", *listed(settings.openers)])
        return SourceAccess(sources, "nobody", opened_by=openers)
    if settings.ledger.kind == "kafka":
        # Whoever reads data for a ledger on Kafka does not know whether its gateways authenticate.
        writers = "everyone who may write the topic admin, or open datasets at a gateway"
        return SourceAccess(sources, "nobody", opened_by=writers)
    return SourceAccess(sources, "population", opened_by="everyone who can reach this server")


def _of_generations(view: DatasetView) -> str:
    """Return a name that the generations of a lifetime share, and that no population has."""
    return "" if view.lifetime is UNSET else f"generations of {view.lifetime.first}"


def _order(reader: SourceReader) -> tuple[str, str]:
    return reader.order


def _is_known(service: LedgerService, dataset: str) -> bool:
    try:
        service.check_is_known(dataset)
    except Unavailable:
        return False
    return True


def _readers_in(views: Iterable[DatasetView]) -> list[SourceReader]:
    """Return the datasets with a schema that may have read data."""
    return [
        SourceReader.of(view, view.schema)
        for view in views
        if view.schema is not UNSET and not view.is_unused
    ]


def _sharing(name: str, sources: Mapping[str, SourceSettings]) -> frozenset[str]:
    """Return the sources that share a place with one, or with one that does."""
    places = {each: _places(settings) for each, settings in sources.items()}
    found, reached = {name}, set(places[name])
    while more := {each for each in places.keys() - found if reached & places[each]}:
        found |= more
        for each in more:
            reached |= places[each]
    return frozenset(found)


def _places(settings: SourceSettings) -> frozenset[tuple[str, ...]]:
    """Return what tells two sources of the same data: file by name and number, database, table."""
    match settings:
        case PostgresqlSource():
            paths, table = [settings.connection_file], _plain_table(settings.table, "public")
        case DuckdbSource():
            paths, table = [settings.path], _plain_table(settings.table, "main")
        case _:
            paths, table = _matching(settings.path), ""
    found = set[tuple[str, ...]]()
    if isinstance(settings, PostgresqlSource):
        # Two users of one table have two connections.
        found.update((*each, table) for each in databases_of(settings.connection_file))
    for path in paths:
        try:
            # `Path.resolve` raises an error at links that lead to one another.
            found.add((os.path.realpath(path), table))
            file = Path(path).stat()
        except (OSError, ValueError):
            found.add((path, table))  # away now, or no path at all: its name alone tells
            continue
        found.add((str(file.st_dev), str(file.st_ino), table))
    return frozenset(found)


def _matching(pattern: str) -> list[str]:
    try:
        return glob.glob(pattern) or [pattern]  # noqa: PTH207  (may be absolute)
    except ValueError:  # such as a NUL in it
        return [pattern]


def _plain_table(table: str, default_schema: str) -> str:
    try:
        *schemas, name = map(str.lower, table_names(table))
    except ValueError:  # nothing can be read from it
        return table
    return name if schemas in ([], [default_schema]) else f"{schemas[0]}\0{name}"


def _not_named(reader: SourceReader, meant: str) -> str:
    # The same words for a source that is not there: whoever may open one learns no name.
    dataset, source = reader.dataset, reader.source
    question = f"Did you mean {meant}? " if meant else ""
    return (
        f"dataset {dataset} may not read the source {source}: the file of sources does not name "
        f"{dataset} for it. {question}If the name is right, whoever runs the server adds {dataset} "
        f"to `datasets` of {source} there"
    )


def _other_population(reader: SourceReader) -> str:
    # No name: the other dataset may be hidden from the caller.
    dataset, source = reader.dataset, reader.source
    return (
        f"dataset {dataset} may not read the source {source}: another dataset reads the same "
        "data, and their budgets add up only in one population. "
        f"Open {dataset} with the population of that dataset. If that one has none, it shares its "
        "data with no other"
    )


def _not_ordered(reader: SourceReader) -> str:
    dataset, source = reader.dataset, reader.source
    return (
        f"dataset {dataset} may not read the source {source}: several datasets read it, and the "
        "ledger's clock does not tell which was opened first. Whoever runs the server names those "
        f"that may read {source} in the file of sources, as its `datasets`"
    )


def _second(reader: SourceReader, first: str) -> str:
    dataset, source = reader.dataset, reader.source
    return (
        f"dataset {dataset} was not opened: {first} reads the source {source} already, and "
        f"another dataset is another budget on the same data. Ask {first} if that is meant."
    )
