"""Which questions a source cannot answer: by its confirmed names and types, and what it has now."""

from __future__ import annotations

import contextlib
import re
import stat
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from accountant.questions import Schema, parse_question
from accountant.questions.schema import decode_schema
from streams.errors import Refused
from streams.sources.confirmed_facts import ConfirmedFacts, changes_of
from streams.sources.present_facts import PresentFacts
from streams.sources.published_states import PublishedStates
from streams.sources.source_facts import read_facts
from streams.sources.source_settings import (
    CsvSource,
    DuckdbSource,
    ParquetSource,
    SourceSettings,
)
from streams.sources.source_states import QuestionRefusal, SourceStates, closed_words
from tests.nightly import rounds
from tests.streams.sources.source_files import Columns, write_parquet

PEOPLE: Columns = {
    "person_id": (pa.int64(), [1, 2, 3]),
    "age": (pa.int64(), [20, 30, 40]),
    "region": (pa.string(), ["north", "south", "north"]),
}
SCHEMA = decode_schema(
    b"""{"source": {"kind": "parquet", "name": "people"}, "neighbours": "add_remove",
    "unit": {"column": "person_id", "rows": 1}, "columns": [
    {"type": "number", "name": "age", "lower": "0", "upper": "120"},
    {"type": "category", "name": "region", "categories": ["north", "south"]}]}"""
)


class World:
    """A Parquet file, and what a process knows of it."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "people.parquet"
        self.confirmed = ConfirmedFacts(directory / "sources.json.confirmed")
        self.sources: dict[str, SourceSettings] = {"people": ParquetSource(path=str(self.file))}
        self.unreadable = set[Schema]()
        self.write()
        self.start()

    def start(self) -> None:
        """Forget what a process has in memory."""
        confirmed = ConfirmedFacts(self.confirmed.path)
        self.states = SourceStates(self.sources, confirmed, self.unreadable.__contains__)

    def write(self, **columns: object) -> None:
        """Write the file; None as a column leaves it out, other values replace it."""
        every = {**PEOPLE, **columns}
        whole = {name: each for name, each in every.items() if each is not None}
        partial = self.file.with_name("new")
        write_parquet(partial, whole)  # type: ignore[arg-type]
        partial.replace(self.file)

    def confirm(self) -> None:
        """Confirm what the file has, as an owner."""
        self.confirmed.confirm("people", read_facts(self.sources["people"]))

    def ask(self, text: str = "mean(age) by region", schema: Schema = SCHEMA) -> str:
        """Return the kind of a question's refusal, "" if it may run."""
        refused = self.refusal(text, schema)
        return "" if refused is None else refused.kind

    def refusal(self, text: str, schema: Schema = SCHEMA) -> QuestionRefusal | None:
        """Return why a question is refused."""
        return self.states.refusal(parse_question(text, SCHEMA).question, schema)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


DOUBLES = (pa.float64(), [20.0, None, 40.0])
CHANGES = {
    "another type": {"age": DOUBLES},
    "a column that is gone": {"age": None},
    "a new column": {"income": (pa.int64(), [1, 2, 3])},
    "another name": {"age": None, "Age": PEOPLE["age"]},
    "all cells missing": {"region": (pa.null(), [None] * 3)},
    "another type of a column that no schema declares": {"note": (pa.string(), ["a"] * 3)},
}


def test_a_clean_check_confirms_for_ever_in_a_private_file(world: World) -> None:
    assert world.ask() == ""
    path = world.confirmed.path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = msgspec.json.decode(path.read_bytes())
    assert found["people"]["by"] == "check"
    assert {"name": "age", "types": ["bigint"]} in found["people"]["columns"]
    before = path.read_bytes()
    world.start()
    assert world.ask() == ""
    assert path.read_bytes() == before


@pytest.mark.parametrize("change", list(CHANGES)[: rounds(3, 6)])
def test_a_change_of_names_or_types_stops_every_question_until_it_is_confirmed(
    world: World, change: str
) -> None:
    world.states.state(SCHEMA)
    world.write(**CHANGES[change])
    for _ in range(2):
        refused = world.refusal("count")
        assert refused is not None
        assert (refused.kind, refused.what) == ("closed", closed_words("people"))
        assert "names and types are not those that were confirmed" in refused.cause
        world.start()  # a restart confirms nothing
    world.confirm()
    assert world.ask("count") == ""


def test_what_comes_back_needs_no_confirmation(world: World) -> None:
    world.states.state(SCHEMA)
    world.write(age=DOUBLES)
    assert world.ask() == "closed"
    world.write()
    assert world.ask() == ""


def test_other_rows_and_another_order_of_columns_change_nothing(world: World) -> None:
    world.states.state(SCHEMA)
    rows = {"age": (pa.int64(), [99]), "region": (pa.string(), ["east"])}
    write_parquet(world.file, {**rows, "person_id": (pa.int64(), [7])})
    assert world.ask() == ""


@pytest.mark.parametrize(
    ("change", "questions", "value"),
    [
        ({"age": None}, {"mean(age)", "count where age > 30", "sum(age) by region"}, "age"),
        ({"region": None}, {"count by region", "histogram(region)"}, "region"),
        ({"age": (pa.list_(pa.int64()), [[1]] * 3)}, {"mean(age)"}, "age"),
        ({"age": None, "Age": PEOPLE["age"]}, {"mean(age)"}, "age"),
        ({"AGE": PEOPLE["age"]}, {"mean(age)"}, "age"),
        (
            {"person_id": None, "Person_id": PEOPLE["person_id"]},
            {"count", "mean(age)"},
            "person_id",
        ),
    ],
)
def test_what_a_source_lacks_is_confirmed_by_an_owner_alone_and_refused_even_then(
    world: World, change: dict[str, object], questions: set[str], value: str
) -> None:
    every = {"count", "mean(age)", "count by region", *questions}
    world.write(**change)
    assert {world.ask(text) for text in every} == {"closed"}
    assert not world.confirmed.path.exists(), "findings confirm nothing"
    world.confirm()
    lacking = {text for text in every if world.ask(text) == "lacks"}
    assert questions <= lacking
    assert {world.ask(text) for text in every - lacking} <= {""}
    assert lacking == every if value == "person_id" else "count" not in lacking
    for text in questions:
        refused = world.refusal(text)
        assert refused is not None
        assert refused.value == value
        assert "accountant source check SCHEMA" in refused.what
        # Analysts read names of the schema, and no name or type of the source.
        assert "Person_id" not in refused.what
        assert "[" not in refused.what


def test_a_unit_of_doubles_is_for_an_owner_to_confirm(world: World) -> None:
    world.states.state(_with_unit(None))  # another schema's check confirms the source
    world.write(person_id=(pa.float64(), [1.0, 2.0, 3.0]))
    world.confirmed.path.unlink()
    world.start()
    assert world.ask("count", _with_unit(None)) == ""
    refused = world.refusal("count")
    assert refused is not None
    assert (refused.kind, refused.value) == ("lacks", "person_id")
    world.confirm()
    assert world.ask("count") == ""


def _with_unit(unit: object) -> Schema:
    content = msgspec.json.decode(msgspec.json.encode(SCHEMA))
    del content["unit"]
    return decode_schema(msgspec.json.encode(content | ({"unit": unit} if unit else {})))


def _changed(world: World) -> None:
    world.write(age=DOUBLES)


def _unreadable(world: World) -> None:
    world.unreadable.add(SCHEMA)


def _away(world: World) -> None:
    world.file.unlink()


def _no_parquet(world: World) -> None:
    world.file.write_bytes(b"age,region\n")


def _open_to_others(world: World) -> None:
    world.confirmed.path.chmod(0o644)


def _damaged(world: World) -> None:
    world.confirmed.path.write_bytes(b"{")


@pytest.mark.parametrize(
    "close", [_changed, _unreadable, _away, _no_parquet, _open_to_others, _damaged]
)
def test_an_analyst_reads_the_same_words_whatever_the_cause(
    world: World, close: Callable[[World], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("streams.sources.present_facts.steady", lambda: now[0])
    assert world.ask() == ""
    close(world)
    world.ask()
    now[0] += 31
    for text in ("count", "mean(age)"):
        refused = world.refusal(text)
        assert refused is not None
        assert refused.what == closed_words("people")
    assert world.states.note() is not None
    assert "`accountant source confirm people` accepts it at once" in str(world.states.note())
    state = world.states.state(SCHEMA)
    assert state.cause, "for its owner"
    assert state.cause not in str(world.states.note())


def test_a_source_that_is_away_for_a_moment_is_not_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("streams.sources.present_facts.steady", lambda: now[0])
    world.states.state(SCHEMA)
    world.file.unlink()
    assert world.ask() == ""
    now[0] += 29
    assert world.ask() == ""
    now[0] += 2
    assert world.ask() == "away", "the reading tries again, and a server refuses"
    world.write()
    assert world.ask() == ""
    world.file.unlink()
    assert world.ask() == "", "it is another moment"


def test_a_source_that_is_away_at_its_first_look_is_unknown(world: World) -> None:
    world.file.unlink()
    assert world.ask() == "unknown"
    world.write()
    assert world.ask() == ""


def test_a_source_that_the_file_does_not_have_is_refused_by_name(world: World) -> None:
    world.sources.clear()
    refused = world.refusal("count")
    assert refused is not None
    assert refused.kind == "absent"
    assert "there is no source people" in refused.what
    world.sources["people"] = CsvSource(path=str(world.file))
    refused = world.refusal("count")
    assert refused is not None
    assert "is of kind csv, not parquet" in refused.what


def test_a_directory_that_cannot_be_written_stops_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world.confirmed.path.with_name("sources.json.confirmed.lock").mkdir()
    assert world.ask() == ""
    assert "source_confirmed_until_restart" in caplog.text
    world.write(age=DOUBLES)
    assert world.ask() == "closed"


def test_a_key_that_stands_twice_is_refused(world: World) -> None:
    world.states.state(SCHEMA)
    content = world.confirmed.path.read_bytes()
    inner = content.strip()[1:-1]
    world.confirmed.path.write_bytes(b"{" + inner + b"," + inner + b"}")
    with pytest.raises(Refused, match="twice"):
        ConfirmedFacts(world.confirmed.path).get("people")


def test_a_difference_names_the_column_and_both_types(world: World) -> None:
    before = read_facts(world.sources["people"])
    world.write(age=DOUBLES, region=None, income=(pa.int64(), [1, 2, 3]))
    assert [*map(str, changes_of(before, read_facts(world.sources["people"])))] == [
        "`age` was of type bigint, and is of type double",
        "`region` is gone, and was of type varchar",
        "`income` is new, of type bigint",
    ]


@pytest.mark.parametrize("change", [{}, {"age": None}, {"age": DOUBLES}, {"person_id": None}])
@pytest.mark.parametrize("is_confirmed", [True, False][: rounds(1, 2)])
def test_a_server_without_data_refuses_what_is_refused_where_they_are(
    world: World, change: dict[str, object], is_confirmed: bool
) -> None:
    world.states.state(SCHEMA)
    world.write(**change)
    if is_confirmed:
        world.confirm()
    published = world.states.published("survey", SCHEMA, world.states.state(SCHEMA))
    states = PublishedStates({"survey": published})
    for text in ("count", "mean(age)", "count by region"):
        question = parse_question(text, SCHEMA).question
        here, there = world.refusal(text), states.refusal("survey", question, SCHEMA)
        assert (here is None) == (there is None)
        if here is not None and there is not None:
            assert (here.kind, here.value, here.what) == (there.kind, there.value, there.what)
        assert states.refusal("other", question, SCHEMA) is None, "nothing is known of it"
    assert states.note() == world.states.note()
    # Readers of the topic learn no other name, and no type.
    assert not {"double", "bigint"} & set(re.findall(r"\w+", str(published)))


def test_a_source_that_no_file_tells_of_is_read_again_where_that_is_asked_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.sources.present_facts.version_of", lambda _: ())
    assert world.ask() == ""
    world.write(age=DOUBLES)
    assert world.ask() == "", "questions ask no database"
    world.states.state(SCHEMA, again=True)
    assert world.ask() == "closed"


def test_a_path_that_the_system_refuses_is_away(tmp_path: Path) -> None:
    too_long = DuckdbSource(path=str(tmp_path / ("x" * 300)), table="t")
    found = None
    # An error here would end the watch of sources, and every question with it.
    with contextlib.suppress(OSError):
        found = PresentFacts({"census": too_long}).look("census")
    assert found is not None
    assert found.is_away
    assert found.problem == "File name too long"
