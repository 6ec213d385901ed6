"""Which dataset may read which source: by the names in the file, by population, and by order."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from msgspec import UNSET

from accountant.policy import Policy
from accountant.policy.lifetime import StoredLifetime
from accountant.questions import Schema
from accountant.questions.schema import DataSource
from accountant.times import iso
from accountant.views.datasets import DatasetView
from streams.errors import Refused, Unavailable
from streams.service.ledger_service import LedgerService
from streams.settings import Settings
from streams.sources.source_access import (
    SourceAccess,
    SourceReader,
    Unlisted,
    source_access,
)
from streams.sources.source_file import open_source_file
from streams.sources.source_settings import (
    CsvSource,
    DuckdbSource,
    ParquetSource,
    PostgresqlSource,
    SourceSettings,
    read_source_settings,
)

NOON = 1_795_262_400_000


def view(
    name: str,
    source: str | None = "people",
    *,
    population: str | None = None,
    minute: int = 0,
    mechanisms: int = 1,
    **more: Any,
) -> DatasetView:
    """Return an open dataset, opened so many minutes after noon."""
    schema = Schema(
        source=DataSource(kind="csv", name=source or ""), columns=(), neighbours="add_remove"
    )
    policy = Policy(
        filter="basic",
        epsilon="1",
        population=population or UNSET,
        access=more.pop("access", UNSET),
    )
    time = iso(NOON + minute * 60_000)
    return DatasetView(
        dataset=name,
        generation=1,
        sequence=1,
        partition_sequence=1,
        policy=policy,
        budget={},
        spent_ratio=0.0,
        totals={"mechanisms": mechanisms},
        left={},
        odometers={},
        crossed=(),
        exhausted=False,
        closed=more.pop("closed", False),
        opened_at=time,
        last_decided_at=time,
        schema=UNSET if source is None else schema,
    )


class Ledger:
    """What `SourceAccess` reads of a ledger: its datasets, and their order.

    Args:
        unknown: datasets that may be open, and that are not read yet.
    """

    def __init__(
        self, *views: DatasetView, ordered: int | None = None, unknown: Collection[str] = ()
    ) -> None:
        self._views = {each.dataset: each for each in views}
        self._ordered = ordered
        self._unknown = unknown

    async def datasets(self) -> list[DatasetView]:
        return list(self._views.values())

    async def dataset(self, name: str) -> DatasetView | None:
        return self._views.get(name)

    def ordered_before(self) -> int | None:
        return self._ordered

    def check_is_known(self, dataset: str) -> None:
        if dataset in self._unknown:
            raise Unavailable("its row is missing")


def csv(path: str = "people.csv", *datasets: str) -> CsvSource:
    return CsvSource(path=path, datasets=datasets or UNSET)


async def verdict(
    access: SourceAccess, ledger: Ledger, name: str, *, new: bool = False, **opening: str
) -> str:
    """Return the kind of refusal, or "reads".

    Args:
        opening: `source` and `population` of a dataset that is not open yet.
    """
    service = cast("LedgerService", ledger)
    found = await ledger.dataset(name)
    if found is not None and not opening:
        assert found.schema is not UNSET
        reader = SourceReader.of(found, found.schema)
    else:
        reader = SourceReader(**{"dataset": name, "source": "people", "population": "", **opening})
    refused = await access.refusal(service, reader, new=new)
    return "reads" if refused is None else refused.kind


async def test_a_source_answers_the_datasets_that_are_named_for_it_alone() -> None:
    ledger = Ledger(view("census"), view("mine", minute=1), view("other", "visits"))
    sources: dict[str, SourceSettings] = {"people": csv("a", "census"), "visits": csv("b", "other")}
    unlisted: list[Unlisted] = ["nobody", "population"]
    for each in unlisted:
        access = SourceAccess(sources, each)
        assert await verdict(access, ledger, "census") == "reads"
        assert await verdict(access, ledger, "other") == "reads"
        assert await verdict(access, ledger, "mine") == "not_named"
        for source in ("people", "visits"):
            assert await verdict(access, ledger, "new", source=source, new=True) == "not_named"


async def test_a_misspelt_dataset_is_asked_back_only_where_everyone_may_read_its_name() -> None:
    reader = SourceReader(dataset="cenus", source="people", population="")
    sources: dict[str, SourceSettings] = {"people": csv("a", "census")}
    asked_back: dict[Unlisted, bool] = {"population": True, "nobody": False}
    for each, is_asked in asked_back.items():
        ledger = cast("LedgerService", Ledger())
        refused = await SourceAccess(sources, each).refusal(ledger, reader)
        assert refused is not None
        assert ("Did you mean census?" in refused.what) is is_asked


async def test_a_source_for_no_dataset_answers_none() -> None:
    access = SourceAccess({"people": CsvSource(path="a", datasets=())}, "population")
    assert await verdict(access, Ledger(view("census")), "census") == "not_named"


async def test_with_authentication_an_unlisted_source_answers_nobody_and_reads_as_unknown() -> None:
    access = SourceAccess({"people": csv()}, "nobody")
    ledger = Ledger(view("census"))
    assert await verdict(access, ledger, "census") == "not_named"
    reader = SourceReader(dataset="new", source="people", population="")
    unknown = SourceReader(dataset="new", source="People", population="")
    said = [await access.refusal(cast("LedgerService", ledger), each) for each in (reader, unknown)]
    assert said[0] is not None
    assert said[1] is not None
    assert said[0].what == said[1].what.replace("People", "people")


@pytest.mark.parametrize(
    ("first", "second", "reads"),
    [
        ("city", "city", True),
        ("city", "town", False),
        ("city", "City", False),
        (None, "city", False),
        ("city", None, False),
        (None, None, False),
    ],
)
async def test_datasets_on_one_source_share_a_population(
    first: str | None, second: str | None, reads: bool
) -> None:
    ledger = Ledger(view("census", population=first), view("again", population=second, minute=1))
    for sources in ({"people": csv("a", "census", "again")}, {"people": csv()}):
        access = SourceAccess(sources, "population")
        assert await verdict(access, ledger, "census") == "reads"
        assert await verdict(access, ledger, "again") == ("reads" if reads else "population")
        only_first = Ledger(view("census", population=first))
        opening = await verdict(access, only_first, "again", population=second or "", new=True)
        assert opening == ("reads" if reads else "population")


async def test_a_dataset_that_is_not_named_is_nobodys_first() -> None:
    ledger = Ledger(view("mine", population="town"), view("census", population="city", minute=1))
    named = SourceAccess({"people": csv("a", "census")}, "nobody")
    assert await verdict(named, ledger, "census") == "reads"


async def test_a_dataset_that_was_closed_unused_is_nobodys_first() -> None:
    unused = view("wrong", closed=True, mechanisms=0)
    used = view("wrong", closed=True)
    access = SourceAccess({"people": csv()}, "population")
    assert await verdict(access, Ledger(unused, view("census", minute=1)), "census") == "reads"
    assert await verdict(access, Ledger(used, view("census", minute=1)), "census") == "population"


async def test_no_dataset_is_first_after_a_clock_was_set_back() -> None:
    ledger = Ledger(view("census", minute=5), view("mine", population="city"), ordered=NOON)
    access = SourceAccess({"people": csv("a", "census", "mine")}, "nobody")
    assert await verdict(access, ledger, "census") == "population"
    assert await verdict(access, ledger, "mine") == "population"


async def test_a_second_dataset_on_an_unlisted_source_is_asked_back() -> None:
    access = SourceAccess({"people": csv()}, "population")
    ledger = Ledger(view("census", population="city"))
    assert await verdict(access, ledger, "again", population="city") == "second"
    assert await verdict(access, ledger, "again", population="city", new=True) == "reads"
    assert await verdict(access, Ledger(), "census") == "reads"
    named = SourceAccess({"people": csv("a", "census", "again")}, "population")
    assert await verdict(named, ledger, "again", population="city") == "reads"


@pytest.mark.parametrize("minutes", [(5, 0), (5, 5)], ids=["a clock set back", "one moment"])
async def test_an_unlisted_source_answers_nobody_while_the_first_dataset_is_not_known(
    minutes: tuple[int, int],
) -> None:
    census, again = (
        view(name, population="city", minute=minute)
        for name, minute in zip(("census", "again"), minutes, strict=True)
    )
    access = SourceAccess({"people": csv()}, "population")
    ledger = Ledger(census, again, ordered=NOON if minutes[0] != minutes[1] else None)
    for name in ("census", "again"):
        assert await verdict(access, ledger, name) == "order"
    assert await verdict(access, ledger, "new", population="city", new=True) == "order"
    assert await verdict(access, Ledger(census, ordered=NOON), "census") == "reads"
    named = SourceAccess({"people": csv("a", "census", "again")}, "population")
    assert await verdict(named, ledger, "census") == "reads"


async def test_on_kafka_an_unlisted_source_answers_nobody() -> None:
    # Its curator cannot know whether the gateways authenticate.
    access = source_access({"people": csv()}, Settings(url="kafka://b:1"))
    assert await verdict(access, Ledger(view("census")), "census") == "not_named"
    assert await verdict(access, Ledger(), "mine", new=True) == "not_named"


async def test_a_dataset_that_is_not_known_is_not_taken_for_one_that_is_not_open() -> None:
    mine = view("mine", population="town", minute=1)
    sources: dict[str, SourceSettings] = {
        "people": csv("a", "census", "mine"),
        "visits": csv("b", "other"),
    }
    access = SourceAccess(sources, "nobody")
    ledger = Ledger(mine, view("other", "visits"), unknown=["census"])
    with pytest.raises(Unavailable):
        await verdict(access, ledger, "mine")
    with pytest.raises(Unavailable):
        await verdict(access, ledger, "census", population="city")
    # What may not read anyway is refused, and other data do not wait.
    assert await verdict(access, ledger, "third", new=True) == "not_named"
    assert await verdict(access, ledger, "other") == "reads"


Another = Callable[[Path], tuple[SourceSettings, SourceSettings]]


def _linked(folder: Path, link: Callable[[Path, Path], None]) -> tuple[CsvSource, CsvSource]:
    link(folder / "a.csv", folder / "b.csv")
    return csv(str(folder / "a.csv"), "census"), csv(str(folder / "b.csv"), "mine")


def postgresql(file: Path, connection: str, dataset: str) -> PostgresqlSource:
    file.write_text(connection)
    file.chmod(0o600)
    return PostgresqlSource(connection_file=str(file), table="stays", datasets=(dataset,))


def _csv_and_pattern(folder: Path) -> tuple[CsvSource, CsvSource]:
    return csv(str(folder / "a.csv"), "census"), csv(str(folder / "?.csv"), "mine")


SAME: dict[str, Another] = {
    "another spelling of the path": lambda folder: (
        csv(str(folder / "a.csv"), "census"),
        csv(f"{folder}/../{folder.name}/./a.csv", "mine"),
    ),
    "a symbolic link": lambda folder: _linked(folder, lambda file, name: name.symlink_to(file)),
    "a hard link": lambda folder: _linked(folder, os.link),
    "a pattern": _csv_and_pattern,
    "another kind": lambda folder: (
        csv(str(folder / "a.csv"), "census"),
        ParquetSource(path=str(folder / "a.csv"), datasets=("mine",)),
    ),
    "a file that is away": lambda folder: (
        csv(str(folder / "z.csv"), "census"),
        csv(f"{folder}/./z.csv", "mine"),
    ),
    "a table by its schema": lambda folder: (
        DuckdbSource(path=str(folder / "a.csv"), table="orders", datasets=("census",)),
        DuckdbSource(path=str(folder / "a.csv"), table="Main.Orders", datasets=("mine",)),
    ),
    "a table of PostgreSQL": lambda folder: (
        PostgresqlSource(connection_file="c", table="public.t", datasets=("census",)),
        PostgresqlSource(connection_file="./c", table="t", datasets=("mine",)),
    ),
    "another user of a database": lambda folder: (
        postgresql(folder / "a", "host=db,Spare. port=5433 dbname=clinic user=ana", "census"),
        postgresql(folder / "b", "postgresql://bob@spare:5433/clinic", "mine"),
    ),
    "a database on this machine": lambda folder: (
        postgresql(folder / "a", "dbname=clinic hostaddr=127.0.0.1", "census"),
        postgresql(folder / "b", "host=/run/postgresql port=5432 user=clinic", "mine"),
    ),
}


@pytest.mark.parametrize("another", SAME.values(), ids=SAME)
async def test_two_names_of_the_same_data_are_one_source(another: Another, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("age\n1\n")
    one, two = another(tmp_path)
    access = SourceAccess({"people": one, "persons": two}, "nobody")
    census, mine = view("census", population="city"), view("mine", "persons", minute=1)
    assert await verdict(access, Ledger(census, mine), "census") == "reads"
    assert await verdict(access, Ledger(census, mine), "mine") == "population"
    opening = await verdict(access, Ledger(census), "mine", source="persons", population="town")
    assert opening == "population"


@pytest.mark.parametrize(
    "path",
    ["loop.csv", "loop.csv/a.csv", "a\0.csv", "a\0/*.csv"],
    ids=["links to one another", "a file behind them", "a NUL", "a NUL and a pattern"],
)
async def test_a_path_that_leads_nowhere_stops_no_check(path: str, tmp_path: Path) -> None:
    (tmp_path / "loop.csv").symlink_to(tmp_path / "back.csv")
    (tmp_path / "back.csv").symlink_to(tmp_path / "loop.csv")
    sources: dict[str, SourceSettings] = {
        "people": csv(str(tmp_path / path), "census"),
        "again": csv(str(tmp_path / path), "mine"),
        "visits": csv(str(tmp_path / "b.csv"), "other"),
    }
    access = SourceAccess(sources, "nobody")
    mine = view("mine", "again", minute=1)
    ledger = Ledger(view("census"), mine, view("other", "visits"))
    assert await verdict(access, ledger, "census") == "reads"
    assert await verdict(access, ledger, "mine") == "population"
    assert await verdict(access, ledger, "other") == "reads"


@pytest.mark.parametrize(
    "connection",
    ["host=db dbname=other", "host=else dbname=clinic", "host=db port=1 dbname=clinic", "host='"],
)
async def test_two_databases_are_two_sources(connection: str, tmp_path: Path) -> None:
    one = postgresql(tmp_path / "a", "host=db dbname=clinic", "census")
    two = postgresql(tmp_path / "b", connection, "mine")
    access = SourceAccess({"people": one, "persons": two}, "nobody")
    ledger = Ledger(view("census"), view("mine", "persons", minute=1))
    assert await verdict(access, ledger, "mine") == "reads"


async def test_two_tables_of_one_file_are_two_sources(tmp_path: Path) -> None:
    path = str(tmp_path / "shop.duckdb")
    access = SourceAccess(
        {
            "people": DuckdbSource(path=path, table="orders", datasets=("census",)),
            "persons": DuckdbSource(path=path, table="stays", datasets=("mine",)),
        },
        "nobody",
    )
    ledger = Ledger(view("census"), view("mine", "persons", minute=1))
    assert await verdict(access, ledger, "mine") == "reads"


async def test_every_dataset_that_nobody_has_named_is_found() -> None:
    ledger = Ledger(
        view("census", population="city"),
        view("again", population="city", minute=1),
        view("mine", minute=2),
        view("elsewhere", "absent"),
        view("claims", None),
    )

    async def found(access: SourceAccess) -> dict[str, list[str]]:
        return await access.unexpected(cast("LedgerService", ledger))

    named = csv("a", "census", "again")
    assert await found(SourceAccess({"people": named}, "nobody")) == {"people": ["mine"]}
    second = {"people": ["again", "mine"]}
    assert await found(SourceAccess({"people": csv()}, "population")) == second
    every = {"people": ["census", "again", "mine"]}
    assert await found(SourceAccess({"people": csv()}, "nobody")) == every
    # The same people as far as the file says, and no population in common.
    named = csv("a", "census", "again", "mine")
    assert await found(SourceAccess({"people": named}, "nobody")) == {"people": ["mine"]}


@pytest.mark.parametrize(
    ("settings", "answers", "opened_by"),
    [
        ({"tokens": "tokens.json", "openers": "zoe"}, "NO DATASET", "administrators, zoe"),
        ({"tokens": "tokens.json", "url": "kafka://b:1"}, "NO DATASET", "administrators"),
        ({"url": "kafka://b:1"}, "NO DATASET", "everyone who may write the topic admin"),
        ({}, "each dataset that is opened on it", "everyone who can reach this server"),
    ],
)
async def test_the_log_says_which_datasets_read_a_source_and_who_may_open_them(
    settings: dict[str, Any], answers: str, opened_by: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    sources = {"people": csv(), "visits": csv("b", "census", "free", "late")}
    access = source_access(sources, Settings(**settings))
    ledger = Ledger(view("census"), unknown=["late"])
    await access.log_access(cast("LedgerService", ledger))
    unlisted, named = [record.getMessage() for record in caplog.records]
    assert "source_without_datasets" in unlisted
    assert answers in unlisted
    assert opened_by in unlisted
    assert "census, free, late" in named
    assert "not_open='free'" in named
    assert "not_known='late'" in named
    assert opened_by in named


@pytest.mark.parametrize(
    ("datasets", "why"),
    [
        ('["census", "census"]', "must name each dataset once"),
        ('["cen sus"]', r"people\.datasets\[0\] must be 1 to 100 letters"),
        ('["*"]', r"people\.datasets\[0\] must be"),
        ('"census"', "Expected `array`"),
        ("null", "Expected `array`"),
        ('["census"], "datasets": ["mine"]', "key 'datasets' stands twice"),
    ],
)
def test_a_list_of_datasets_that_can_be_misread_is_refused(
    datasets: str, why: str, tmp_path: Path
) -> None:
    path = tmp_path / "sources.json"
    path.write_text(f'{{"people": {{"kind": "csv", "path": "a", "datasets": {datasets}}}}}')
    with pytest.raises(Refused, match=why):
        read_source_settings(path)


def test_a_gateway_without_the_file_knows_no_source(tmp_path: Path) -> None:
    absent = tmp_path / "sources.json"
    assert open_source_file(Settings(url="kafka://127.0.0.1:1", data_sources=absent)) is None
    assert open_source_file(Settings()) is None
    with pytest.raises(Refused, match="cannot be read"):
        open_source_file(Settings(url=f"sqlite:///{tmp_path}/l.db", data_sources=absent))


async def test_the_generations_of_a_lifetime_read_one_source() -> None:
    first = StoredLifetime(epsilon="3", first="census", spent={"epsilon": "1", "delta": "0"})
    own = msgspec.structs.replace(first, first="census::2")
    old = msgspec.structs.replace(view("census", closed=True), lifetime=first)
    for population in (None, "city"):
        new = view("census::2", minute=1, population=population)
        named: dict[str, SourceSettings] = {"people": csv("a", "census", "census::2")}
        access = SourceAccess(named, "nobody")
        before = msgspec.structs.replace(old, policy=new.policy)
        renewed = msgspec.structs.replace(new, lifetime=first)
        assert await verdict(access, Ledger(before, renewed), "census::2") == "reads"
        apart = msgspec.structs.replace(new, lifetime=own)
        expected = "population" if population is None else "reads"
        assert await verdict(access, Ledger(before, apart), "census::2") == expected
        assert await verdict(access, Ledger(before, new), "census::2") == expected
