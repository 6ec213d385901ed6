"""`accountant ask` with a question: its answer with interval and cost, or why there is none."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator

import pytest

from accountant.answers import decode_answer
from tests.every_case import every_case
from tests.streams.cli.conftest import Command, Done
from tests.streams.cli.test_serve import serving
from tests.streams.gateway.asking import SCHEMA, data_settings

QUESTION = "count where age > 65"


@pytest.fixture
def ledger(accountant: Command) -> Command:
    """A ledger in the default file with the dataset `survey`, which has a schema."""
    schema = accountant.directory / "survey.schema.json"
    schema.write_text(json.dumps(SCHEMA))
    opening = ("--epsilon", "100", "--delta", "1e-6", "--schema", str(schema), "--by", "olga")
    done = accountant("dataset", "open", "survey", *opening)
    assert done.code == 0, done.err
    curator = ("survey", "curator", "--role", "curator", "--by", "olga")
    assert accountant("member", "set", *curator).code == 0
    return accountant


@pytest.fixture
def served(ledger: Command) -> Iterator[Command]:
    """The same ledger, with a server that reads the data."""
    sources = data_settings(ledger.directory)["data_sources"]
    settings = {"DATA_SOURCES": str(sources), "CURATOR_TICK_SECONDS": "0.1"}
    with serving(ledger, **{f"ACCOUNTANT_{name}": value for name, value in settings.items()}):
        yield ledger


def ask(accountant: Command, *arguments: str) -> Done:
    return accountant("ask", "survey", *arguments, "--analyst", "ana")


def test_a_question_prints_answer_interval_cost_and_what_is_left(served: Command) -> None:
    done = ask(served, QUESTION, "--epsilon", "0.5")
    assert (done.code, done.err) == (0, "")
    *decision, first, bounds, cost, then = done.out.splitlines()
    value = r"count where age > 65: -?\d+ ± 6"
    assert re.fullmatch(f"{value}, 95 % interval of the bounded rows", first)
    assert bounds == "bounds: each row counts as one unit"
    assert cost == "cost ε 0.5 (epsilon: 0.5)"
    # Readings of odometers are in `dataset show`: nobody needs them to go on.
    assert [line.split()[0] for line in decision] == ["granted:", "cost", "left", "id"]
    assert then.startswith("  then  ")


def test_several_statistics_are_one_answer(served: Command) -> None:
    done = ask(served, "count, mean(age)", "--epsilon", "1", "--weights", "1 2")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert "cost ε 1 (epsilon: 1, weights 1 2)" in lines
    assert ["count", "mean(age)"] in [line.split() for line in lines]


def test_a_claim_has_its_own_amount(ledger: Command) -> None:
    done = ask(ledger, "pure:0.1", "--epsilon", "0.1")
    assert (done.code, "for questions, and pure:0.1 is a claim" in done.err) == (2, True)


def test_json_is_the_stored_answer_and_an_id_repeats_it(served: Command) -> None:
    done = ask(served, "count by region", "--error", "10 at 0.9", "--json")
    answer = decode_answer(done.out.strip().encode())
    assert (answer.noise.error, answer.noise.confidence) == ("10", "0.9")
    assert len(answer.values) == 2
    again = ("count by region", "--error", "10 at 0.9", "--id", answer.request_id)
    assert ask(served, *again, "--json").out == done.out
    assert served("dataset", "show", "survey", "--json").json["outcomes"]["granted"] == 1
    other = ask(served, "count", "--error", "10 at 0.9", "--id", answer.request_id)
    assert other.code == 1
    assert other.out.startswith("conflict")


def test_a_name_has_one_answer_that_is_charged_once(served: Command) -> None:
    done = ask(served, "count", "--epsilon", "1", "--once", "people", "--json")
    assert (done.code, done.err) == (0, "")
    assert ask(served, "count", "--epsilon", "1", "--once", "people", "--json").out == done.out
    assert served("dataset", "show", "survey", "--json").json["outcomes"]["granted"] == 1
    other = ask(served, "count", "--epsilon", "2", "--once", "people")
    assert (other.code, "people" in other.err) == (1, True)
    refused = ask(served, "count", "--epsilon", "200", "--once", "many")
    assert (refused.code, refused.out.splitlines()[0]) == (1, "refused (above_cap)")
    both = ask(served, "count", "--epsilon", "1", "--once", "a", "--id", "a")
    assert (both.code, "a name has its own id" in both.err) == (2, True)


def test_accuracy_first_says_what_was_saved_and_reserved(served: Command) -> None:
    done = ask(served, "count", "--epsilon", "5", "--relative-error", "0.2 at 0.9")
    assert (done.code, done.err) == (0, "")
    assert "ε 5 reserved; noise fixed in advance for this error: ε 0." in done.out
    assert "mechanism" not in done.out


@every_case("part", ["10 %", "10%", "10 % at 0.9", "0,1", "10"])
def test_a_relative_error_in_percent_gets_the_part_to_write(ledger: Command, part: str) -> None:
    done = ask(ledger, "count", "--epsilon", "5", "--relative-error", part)
    assert done.code == 2
    assert "write 0.1" in done.err


def test_columns_shows_what_can_be_asked(ledger: Command) -> None:
    done = ledger("dataset", "columns", "survey")
    assert (done.code, done.err) == (0, "")
    assert "histogram(region)" in done.out
    assert done.out.endswith("each row counts as one unit\n")
    lines = ledger("dataset", "columns", "survey", "--json").out.splitlines()
    assert json.loads(lines[0])["questions"][0] == "mean(age)"
    assert ledger("dataset", "open", "plain", "--epsilon", "1", "--delta", "1e-6").code == 0
    assert "it was opened without a schema" in ledger("dataset", "columns", "plain").err


def test_a_dry_run_shows_the_derived_claim(ledger: Command) -> None:
    done = ask(ledger, "count by region", "--rho", "0.01", "--dry-run")
    assert done.code == 6
    assert done.out.startswith("would be granted; this was a dry run, nothing was recorded")
    assert done.out.splitlines()[-1] == "  claim zcdp:0.01"
    preview = ask(ledger, "count by region", "--rho", "0.01", "--dry-run", "--json").json
    assert preview["derived"]["claim"] == {"type": "zcdp", "rho": "0.01"}
    assert ledger("dataset", "show", "survey", "--json").json["sequence"] == 2


def test_without_a_server_that_reads_the_data_nothing_is_charged(ledger: Command) -> None:
    done = ask(ledger, QUESTION, "--epsilon", "0.5")
    assert done.code == 4
    assert "accountant serve" in done.err
    with serving(ledger):
        done = ask(ledger, QUESTION, "--epsilon", "0.5")
    assert done.code == 4
    assert "ACCOUNTANT_DATA_SOURCES" in done.err
    assert ledger("dataset", "show", "survey", "--json").json["sequence"] == 2


def test_a_question_that_cannot_be_run_says_that_it_is_charged(ledger: Command) -> None:
    sources = data_settings(ledger.directory)["data_sources"]
    short = json.loads(sources.read_bytes())
    short["people"]["seconds"] = 1
    sources.write_text(json.dumps(short))
    more = {"CURATOR_TICK_SECONDS": "0.1", "CURATOR_TURN_SECONDS": "6"}
    settings = {"DATA_SOURCES": str(sources), **more}
    with serving(ledger, **{f"ACCOUNTANT_{name}": value for name, value in settings.items()}):
        (ledger.directory / "people.csv").unlink()
        done = ask(ledger, QUESTION, "--epsilon", "0.5")
    assert done.code == 1
    assert done.out.startswith("granted: ")
    assert "its cost stays charged" in done.err
    assert "--id" not in done.err


def test_a_refused_question_says_what_would_fit(served: Command) -> None:
    done = ask(served, QUESTION, "--epsilon", "90")
    assert done.code == 1
    assert done.out.startswith("refused (above_cap)")
    assert "fits  pure:" in done.out


WRONG: list[tuple[tuple[str, ...], str]] = [
    ((QUESTION,), "exactly one of --epsilon, --rho, --sigma and --error"),
    ((QUESTION, "--epsilon", "1", "--rho", "1"), "exactly one of"),
    ((QUESTION, "--law", "laplace_reduction"), "exactly one of"),
    (("count where agee > 65", "--epsilon", "1"), "did you mean age?"),
    (("cont", "--epsilon", "1"), "did you mean count?"),
    (("pure:0.1", "--epsilon", "1"), "--epsilon is for questions, and pure:0.1 is a claim"),
    ((QUESTION, "--epsilon", "x"), "error: --epsilon must be"),
    ((QUESTION, "--error", "50 at 2"), "confidence must be"),
    ((QUESTION, "--error", "50 at 0.9", "--relative-error", "0.1 at 0.9"), "one confidence"),
    ((QUESTION, "--epsilon", "1", "--unit", "person"), "left out of a question"),
    ((QUESTION, "--epsilon", "1", "--other", "census"), "left out of a question"),
    ((QUESTION, "--epsilon", "1", "--dry-run", "--id", "a"), "--dry-run excludes --id"),
]


@every_case(("arguments", "why"), WRONG)
def test_a_wrong_question_is_not_sent(
    ledger: Command, arguments: tuple[str, ...], why: str
) -> None:
    done = ask(ledger, *arguments)
    assert (done.code, done.out) == (2, "")
    assert why in done.err


def test_old_answers_are_listed_and_read_again(served: Command) -> None:
    assert served("answers", "survey").out == "survey has no answers that you may see\n"
    first = ask(served, QUESTION, "--epsilon", "0.5", "--json").out
    groups = ask(served, "count by region", "--epsilon", "0.5")
    session = ask(served, "count", "--epsilon", "5", "--relative-error", "0.2 at 0.9")
    assert (groups.code, session.code) == (0, 0)
    listed = served("answers", "survey")
    assert (listed.code, listed.err) == (0, "")
    lines = [" ".join(line.split()) for line in listed.out.splitlines()]
    found = decode_answer(first.strip().encode())
    (line,) = [each for each in lines if found.request_id in each]
    assert re.search(r" ana count where age > 65 -?\d+ ± 6 ε 0.5$", line)
    assert any("count by region 2 values ε 0.5" in each for each in lines)
    assert "relative_error" in listed.out
    assert served("answers", "survey", "--json").out.splitlines()[0] == first.strip()
    assert served("answers", "survey", "--json", "--last", "1").out.count("\n") == 1
    whole = served("answers", "survey", "--id", found.request_id)
    assert whole.out.startswith("count where age > 65: ")
    regions = decode_answer(served("answers", "survey", "--json").out.splitlines()[1].encode())
    pair = ("--id", regions.request_id, "--difference", "north", "south")
    assert re.fullmatch(
        r"north - south: -?\d+ ± \d+, 95 % interval\n", served("answers", "survey", *pair).out
    )
    both = served("answers", "survey", *pair, "--ratio", "south", "north", "--all-pairs").out
    assert [line.split(":")[0] for line in both.splitlines()] == ["north - south", "south / north"]
    wrong = served("answers", "survey", "--id", regions.request_id, "--ratio", "north", "west")
    assert "second must be a group of this answer" in wrong.err
    assert served("answers", "survey", "--ratio", "north", "south").code == 2
    assert served("answers", "survey", "--analyst", "ben").out.startswith("survey has no answers")


def test_an_id_without_an_answer_is_named(served: Command) -> None:
    done = served("answers", "survey", "--id", "0197a5c0-0000-7000-8000-000000000000")
    assert done.code == 1
    assert "has no answer on survey" in done.err


def test_a_ledger_without_a_server_has_no_answers_to_list(ledger: Command) -> None:
    done = ledger("answers", "survey")
    assert (done.code, done.out) == (4, "")
    assert "no answers are stored in" in done.err
    assert "accountant serve" in done.err


def test_answers_are_read_from_a_copy_without_a_server(ledger: Command) -> None:
    sources = data_settings(ledger.directory)["data_sources"]
    with serving(ledger, ACCOUNTANT_DATA_SOURCES=str(sources)):
        asked = ask(ledger, QUESTION, "--epsilon", "0.5", "--json").out
        listed = ledger("answers", "survey", "--json").out
    assert asked == listed
    copies = [ledger.directory / name for name in ("copy.db", "copy.db.answers")]
    for copy in copies:
        shutil.copy(ledger.directory / copy.name.replace("copy", "accountant"), copy)
    where = ("--url", "sqlite:///copy.db")
    assert ledger("answers", "survey", "--json", *where).out == listed
    assert ledger("answers", "survey", "--json", "--analyst", "ben", *where).out == ""
    assert ledger("answers", "survey", "--json").out == listed  # of the ledger itself, too
    for copy in copies:  # nothing is written
        assert (
            copy.read_bytes()
            == copy.with_name(copy.name.replace("copy", "accountant")).read_bytes()
        )
    assert ledger("answers", "other", *where).code == 1
    assert not [*ledger.directory.glob("*-wal"), *ledger.directory.glob("*-shm")]
