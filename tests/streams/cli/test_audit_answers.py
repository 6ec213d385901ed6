"""What `accountant audit` says of a store of answers beside the log that it audits."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from msgspec.structs import replace

from accountant.answers import NoisyAnswer, decode_answer, encode_answer
from accountant.claims import Pure
from accountant.questions.statistics import CountQuestion
from accountant.records import decode_decision
from accountant.records.outcomes import Outcome
from accountant.replay.sealed_log import SealSnapshot
from streams.answers.answer_file import open_answers
from streams.answers.granted import GrantedQuestion
from streams.audit.answer_comparison import AnswerComparison
from streams.embedded.checkpointing import ledger_id
from streams.embedded.sqlite_log import SqliteLog
from streams.evidence.store import signing_key_at
from streams.log.decision_log import Part
from streams.settings import Settings
from tests.faults.ledger import new_id, until
from tests.streams.cli.conftest import Command, Done
from tests.streams.curator.curated import (
    Counting,
    CuratedLedger,
    member,
    opened,
    question,
    session,
)

STORE = "ledger.db.answers"
NOTHING = "sha256:" + 64 * "a"
Grants = dict[str, str]


async def run(directory: Path) -> Grants:
    """Ask questions of a ledger with a curator; return the grants by what became of them."""
    ledger, grants = CuratedLedger(directory), Grants()

    def breaks(question: GrantedQuestion) -> None:
        if question.request.purpose == "break":
            raise ArithmeticError

    async with ledger.open():
        await ledger.send(opened("census"), "admin")
        await ledger.send(member("curator", "curator"), "admin")
        await ledger.store.open_log(0, await ledger.id(), 0)
        grants["voided"] = await ledger.ask(session())
        body = {"version": 1, "type": "void", "request_id": new_id(), "analyst": "ana"}
        await ledger.send(
            json.dumps(body | {"dataset": "census", "grant": grants["voided"]}).encode()
        )
        broken = json.dumps(json.loads(session()) | {"purpose": "break"}).encode()
        async with ledger.curated(Counting(ledger.answering, breaks)):
            grants["plain"] = await ledger.ask(question())
            grants["session"] = await ledger.ask(session())
            grants["broken"] = await ledger.ask(broken)
            outcomes = {name: (await ledger.answer(each)).outcome for name, each in grants.items()}
            assert outcomes == {
                "voided": "failed",
                "plain": "answered",
                "session": "answered",
                "broken": "failed",
            }
            find = ledger.service.open_reservation
            for name, each in grants.items():
                # Longer than the curator waits for a decision before it sends its step again.
                await until(lambda each=each: find("census", each) is None, f"{name} is settled")
    return grants


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Grants]:
    directory = tmp_path_factory.mktemp("answered")
    return directory, asyncio.run(run(directory))


@pytest.fixture
def ledger(accountant: Command, original: tuple[Path, Grants]) -> Command:
    """A copy of the ledger and its answers."""
    for each in original[0].glob("ledger.db*"):
        shutil.copy(each, accountant.directory)
    return accountant


@pytest.fixture
def grants(original: tuple[Path, Grants]) -> Grants:
    return original[1]


def execute(ledger: Command, sql: str, *values: object) -> list[tuple[Any, ...]]:
    """Run SQL on the store of answers."""
    db = apsw.Connection(str(ledger.directory / STORE))
    try:
        return list(db.execute(sql, values))
    finally:
        db.close()


def forge(ledger: Command, grant: str, change: Callable[[NoisyAnswer], NoisyAnswer]) -> None:
    ((value,),) = execute(ledger, "SELECT value FROM answers WHERE grant_hash = ?", grant)
    forged = encode_answer(change(decode_answer(value)))
    execute(ledger, "UPDATE answers SET value = ? WHERE grant_hash = ?", forged, grant)


def failed_with(ledger: Command, what: str) -> dict[str, Any]:
    """Audit, and return the disagreement of the answers, which is about one field."""
    done = ledger("audit", "ledger.db", "--json")
    assert (done.code, done.err) == (1, "")
    assert done.json["audit"] == "failed"
    assert done.json["partitions"][0]["report"]["ok"]
    wrong: dict[str, Any] = done.json["answers"]["first_disagreement"]
    assert wrong["what"] == what
    text = ledger("audit", "ledger.db")
    assert (text.code, text.err) == (1, "")
    assert f"field {what}" in text.out
    return wrong


def agreed(done: Done) -> dict[str, Any]:
    assert (done.code, done.err) == (0, "")
    report: dict[str, Any] = done.json["answers"]
    assert report["ok"]
    return report


def test_answers_beside_the_file_are_compared(ledger: Command) -> None:
    report = agreed(ledger("audit", "ledger.db", "--json"))
    assert (report["compared"], report["waiting"], report["lost"]) == (4, 0, 0)
    done = ledger("audit", "ledger.db")
    assert (done.code, done.err) == (0, "")
    assert f"ok answers: 4 in {STORE} agree with the log\n" in done.out


def test_an_exported_log_is_compared_with_the_answers_that_are_named(ledger: Command) -> None:
    url = ("--url", "sqlite:///ledger.db")
    (ledger.directory / "log.jsonl").write_text(ledger("log", "export", *url).out)
    assert "answers" not in ledger("audit", "log.jsonl", "--json").json
    assert agreed(ledger("audit", "log.jsonl", "--answers", STORE, "--json"))["compared"] == 4


def test_an_answer_that_shows_a_coarser_level_than_was_settled(
    ledger: Command, grants: Grants
) -> None:
    def coarser(answer: NoisyAnswer) -> NoisyAnswer:
        last = answer.levels[-1]
        level = replace(last, level=str(2 * int(last.level)))
        return replace(answer, levels=(*answer.levels[:-1], level))

    forge(ledger, grants["session"], coarser)
    wrong = failed_with(ledger, "shown")
    assert int(wrong["found"]) == 2 * int(wrong["expected"])


def test_a_session_that_showed_more_than_was_settled(ledger: Command, grants: Grants) -> None:
    def finer(answer: NoisyAnswer) -> NoisyAnswer:
        level = replace(answer.levels[-1], level="1/7")
        return replace(answer, levels=(*answer.levels, level))

    forge(ledger, grants["session"], finer)
    assert failed_with(ledger, "shown")["found"] == "1/7"


def test_a_failed_session_must_be_settled_in_full(ledger: Command, grants: Grants) -> None:
    failed = "SELECT value FROM answers WHERE grant_hash = ?"
    ((value,),) = execute(ledger, failed, grants["broken"])
    empty = decode_answer(value)
    fields = ("request_id", "grant")
    forge(
        ledger,
        grants["session"],
        lambda answer: replace(empty, **{name: getattr(answer, name) for name in fields}),
    )
    assert failed_with(ledger, "shown")["found"] == "an answer that failed"


def test_a_failed_answer_shows_nothing(ledger: Command, grants: Grants) -> None:
    forge(ledger, grants["broken"], lambda answer: replace(answer, cost={"epsilon": "0"}))
    failed_with(ledger, "cost")


def test_an_answer_with_another_claim(ledger: Command, grants: Grants) -> None:
    forge(ledger, grants["plain"], lambda answer: replace(answer, claim=Pure(epsilon="0.5")))
    wrong = failed_with(ledger, "claim")
    assert json.loads(wrong["found"])["epsilon"] == "0.5"
    assert wrong["grant"] == grants["plain"]


def test_an_answer_with_less_noise_than_was_charged(ledger: Command, grants: Grants) -> None:
    """Its question, claim and grant are right, so only a run of the question tells."""

    def finer(answer: NoisyAnswer) -> NoisyAnswer:
        return replace(answer, statistics=(replace(answer.statistics[0], scale="1/9"),))

    forge(ledger, grants["plain"], finer)
    wrong = failed_with(ledger, "statistics[0].scale")
    assert (wrong["expected"], wrong["found"]) == ("1", "1/9")
    assert wrong["grant"] == grants["plain"]


def test_a_session_that_says_that_its_rule_was_not_reached(ledger: Command, grants: Grants) -> None:
    forge(ledger, grants["session"], lambda answer: replace(answer, stopped=False))
    assert failed_with(ledger, "stopped")["expected"] == "true"


def test_each_answer_that_differs_is_named(ledger: Command, grants: Grants) -> None:
    for name in "plain", "session":
        forge(ledger, grants[name], lambda answer: replace(answer, confidence="0.5"))
    done = ledger("audit", "ledger.db", "--json")
    report = done.json["answers"]
    assert (done.code, report["disagreeing"], report["compared"]) == (1, 2, 2)
    named = {each["grant"] for each in report["disagreements"]}
    assert named == {grants["plain"], grants["session"]}
    text = ledger("audit", "ledger.db").out
    assert text.count("field confidence") == 2
    assert "2 answers in ledger.db.answers disagree with them" in text


def test_of_answers_to_a_log_that_is_wrong_nothing_is_claimed(ledger: Command) -> None:
    with contextlib.closing(apsw.Connection(str(ledger.directory / "ledger.db"))) as db:
        db.execute("DELETE FROM decisions WHERE sequence = 2")
    done = ledger("audit", "ledger.db")
    assert done.code == 1
    assert "the answers were not compared: first repair the log" in done.out
    assert "agree with the log" not in done.out


def test_answers_are_run_again_where_the_opening_is_archived(
    ledger: Command, grants: Grants
) -> None:
    """Then the schema is in a row of the seal."""
    path = ledger.directory / "ledger.db"
    (whole,) = SqliteLog(path).parts()
    kept = [value for value in whole.values if decode_decision(value).outcome is not Outcome.OPENED]
    with contextlib.closing(apsw.Connection(str(path))) as db:
        rows = [value for (value,) in db.execute("SELECT value FROM state")]
    wanted = {"right": None, "forged": "confidence"}
    for kind, what in wanted.items():
        if kind == "forged":
            forge(ledger, grants["plain"], lambda answer: replace(answer, confidence="0.5"))
        part = Part(0, iter(kept), sealed=SealSnapshot(rows, ()))
        with open_answers(ledger.directory / STORE) as store:
            comparison = AnswerComparison(store)
            assert len([*comparison.watch(part).values]) == len(kept)
            report = comparison.report({0: ledger_id(path)})
        found = report.first_disagreement
        assert (None if found is None else found.what) == what


def test_an_answer_to_another_question(ledger: Command, grants: Grants) -> None:
    other = CountQuestion(where="age > 65")
    forge(ledger, grants["plain"], lambda answer: replace(answer, question=other))
    failed_with(ledger, "question")


def test_an_answer_that_another_request_finds(ledger: Command, grants: Grants) -> None:
    change = "UPDATE answers SET analyst = 'zed' WHERE grant_hash = ?"
    execute(ledger, change, grants["plain"])
    assert failed_with(ledger, "analyst")["found"] == "zed"


def test_a_session_that_was_voided_has_shown_nothing(ledger: Command, grants: Grants) -> None:
    forge(
        ledger, grants["voided"], lambda answer: replace(answer, outcome="answered", values=("7",))
    )
    failed_with(ledger, "outcome")


def test_bytes_that_are_no_answer(ledger: Command, grants: Grants) -> None:
    change = "UPDATE answers SET value = x'7b7d' WHERE grant_hash = ?"
    execute(ledger, change, grants["plain"])
    failed_with(ledger, "value")


def test_an_answer_to_nothing(ledger: Command, grants: Grants) -> None:
    copied = "INSERT INTO answers SELECT partition, 99, ?, dataset, analyst, request_id, value"
    execute(ledger, f"{copied} FROM answers WHERE grant_hash = ?", NOTHING, grants["plain"])
    wrong = failed_with(ledger, "grant")
    assert wrong["grant"] == NOTHING
    assert "partition_sequence" not in wrong or wrong["partition_sequence"] is None


def test_the_answers_of_another_ledger(ledger: Command) -> None:
    execute(ledger, "UPDATE logs SET ledger = ?", 32 * "0")
    assert failed_with(ledger, "ledger")["found"] == 32 * "0"


def without_heads(ledger: Command) -> None:
    """Make the store one of a version without a chain, whose head stands nowhere."""
    execute(ledger, "DROP TABLE chain")
    execute(ledger, "PRAGMA user_version = 1")
    with contextlib.closing(apsw.Connection(str(ledger.directory / "ledger.db"))) as db:
        db.execute("DROP TABLE answer_heads")


def test_a_question_without_an_answer_waits(ledger: Command, grants: Grants) -> None:
    without_heads(ledger)
    execute(ledger, "DELETE FROM answers WHERE grant_hash = ?", grants["plain"])
    report = agreed(ledger("audit", "ledger.db", "--json"))
    assert (report["compared"], report["waiting"]) == (3, 1)
    assert (report["ledger_head"], report["signed_heads"]) == (None, 0)
    text = ledger("audit", "ledger.db").out
    assert "; 1 question has no answer" in text
    assert "their values are not on the log" in text


def test_an_answer_that_was_cut_out_is_named(ledger: Command, grants: Grants) -> None:
    execute(ledger, "DELETE FROM answers WHERE grant_hash = ?", grants["plain"])
    found = failed_with(ledger, "chain")["found"]
    # The plain answer may be the last one of the chain.
    assert "answers before it were removed" in found or "was removed: the chain" in found


def test_the_head_in_the_ledgers_file_is_compared(ledger: Command) -> None:
    assert agreed(ledger("audit", "ledger.db", "--json"))["ledger_head"] == 4
    assert "the ledger's file names the last of 4 answers" in ledger("audit", "ledger.db").out


def test_answers_that_the_ledger_names_and_nobody_finds_are_said(ledger: Command) -> None:
    (ledger.directory / STORE).rename(ledger.directory / "elsewhere")
    text = ledger("audit", "ledger.db").out
    assert "the ledger's file names 4, and no store of them is beside it" in text
    assert ledger("audit", "ledger.db", "--json").json["answers_not_compared"] == 4
    agreed(ledger("audit", "ledger.db", "--answers", "elsewhere", "--json"))


def test_a_head_that_was_removed_from_the_ledgers_file_is_missed(ledger: Command) -> None:
    with contextlib.closing(apsw.Connection(str(ledger.directory / "ledger.db"))) as db:
        db.execute("DELETE FROM answer_heads")
    assert "whose head the ledger's file does not have" in failed_with(ledger, "head")["found"]
    text = ledger("audit", "ledger.db").out
    assert "may not have the answers that were stored last" in text
    assert "disagrees with them" not in text


def test_a_settled_session_has_an_answer_unless_a_store_was_lost(
    ledger: Command, grants: Grants
) -> None:
    without_heads(ledger)
    execute(ledger, "DELETE FROM answers WHERE grant_hash = ?", grants["session"])
    assert failed_with(ledger, "shown")["found"] == "no answer"
    execute(ledger, "UPDATE logs SET begins = 1000")
    report = agreed(ledger("audit", "ledger.db", "--json"))
    assert (report["compared"], report["lost"]) == (3, 1)


def test_signed_heads_are_compared_and_named(
    accountant: Command, tmp_path_factory: pytest.TempPathFactory
) -> None:
    notes = tmp_path_factory.mktemp("notes")
    settings = Settings(checkpoints=notes)

    async def answer_two() -> None:
        made = CuratedLedger(accountant.directory, settings=settings)
        for number in range(2):
            async with made.open():
                if number == 0:
                    await made.send(opened("census"), "admin")
                async with made.curated():
                    await made.answer(await made.ask(question()))

    asyncio.run(answer_two())
    key = signing_key_at(notes, None).verifier.text
    compared = ("audit", "ledger.db", "--checkpoints", str(notes), "--key", key)
    report = agreed(accountant(*compared, "--json"))
    # The head of the empty store may have been signed, too.
    assert report["signed_heads"] in {2, 3}
    assert (report["last_signed"], report["given_up"]) == (2, 0)
    assert "signed heads of the answers agree, up to answer 2" in accountant(*compared).out
    # An exported log has no head: only the signed ones tell of a cut.
    log = accountant("log", "export", "--url", "sqlite:///ledger.db").out
    (accountant.directory / "log.jsonl").write_text(log)
    compared = ("audit", "log.jsonl", *compared[2:])
    assert "heads of answers were not compared: add --answers" in accountant(*compared).out
    compared = (*compared, "--answers", STORE)
    assert agreed(accountant(*compared, "--json"))["last_signed"] == 2
    for table in "answers", "chain":
        execute(accountant, f"DELETE FROM {table} WHERE number = 2")
    done = accountant(*compared, "--json")
    assert done.code == 1
    (wrong,) = done.json["answers"]["disagreements"]
    assert "it has 1, and a signed head names 2" in wrong["found"]
    # Without checkpoints no signed head was read, so none is named.
    (wrong,) = accountant("audit", "ledger.db", "--json").json["answers"]["disagreements"]
    assert "it has 1, and the ledger's file names 2" in wrong["found"]


def test_a_loss_that_was_accepted_gives_up_earlier_heads(ledger: Command) -> None:
    for each in ledger.directory.glob(f"{STORE}*"):
        each.unlink()
    done = ledger("accept-answers", "--url", "sqlite:///ledger.db", "--json")
    assert (done.code, done.json["answers"]) == (0, 0)
    assert "0 answers" in ledger("accept-answers", "--url", "sqlite:///ledger.db").out
    execute(ledger, "UPDATE logs SET ledger = ?", 32 * "0")
    done = ledger("accept-answers", "--url", "sqlite:///ledger.db")
    assert (done.code, done.out) == (4, "")
    assert "has the answers of ledger" in done.err


def test_a_file_that_is_no_store_of_answers(ledger: Command) -> None:
    done = ledger("audit", "ledger.db", "--answers", "ledger.db")
    assert (done.code, done.out) == (4, "")
    assert "ledger.db is no store of answers" in done.err


def test_an_answer_of_a_renewed_dataset_is_that_of_its_own_schema(accountant: Command) -> None:
    async def live() -> None:
        ledger = CuratedLedger(accountant.directory)
        async with ledger.open():
            first = json.loads(opened("first"))
            first["policy"]["epsilon"] = "100"
            body = first | {"lifetime": {"epsilon": "1000", "delta": "1e-3"}}
            await ledger.send(json.dumps(body).encode(), "admin")
            renewal = {**first, "type": "renew", "request_id": new_id(), "renewed_as": "census"}
            renewed = await ledger.send(json.dumps(renewal).encode(), "admin")
            assert renewed["outcome"] == "renewed"
            for name in ("ana", "curator"):
                role = "analyst" if name == "ana" else "curator"
                await ledger.send(member(name, role), "admin")
            await ledger.store.open_log(0, await ledger.id(), 0)
            async with ledger.curated():
                assert (await ledger.answer(await ledger.ask(question()))).outcome == "answered"

    asyncio.run(live())
    done = accountant("audit", "ledger.db")
    assert done.code == 0, done.out
    assert "1 of them stored" in done.out or "1 answer" in done.out, done.out
