"""A client asks questions, and gets one answer of each request, whatever it repeats."""

from __future__ import annotations

import asyncio
import statistics
import warnings
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accountant.errors import RequestInvalid
from streams.client import (
    Accountant,
    AnswerFailed,
    AsyncAccountant,
    NameTaken,
    NoAnswers,
    NotGranted,
    NotYetAnswered,
    PrivateAnswer,
    SimilarName,
    UnknownDataset,
)
from streams.client.questions.asked_question import noise_of, question_of
from streams.client.requests.requests import new_id
from streams.clock import Clock, SystemClock
from streams.notebooks import frames
from streams.settings import Settings
from tests.every_case import check_each
from tests.streams.clock import TestClock
from tests.streams.gateway.asking import PEOPLE, SCHEMA, data_settings, make_unreadable
from tests.streams.gateway.local_server import LocalServer

POLICY = {"filter": "zcdp", "rho": "1000000", "delta": "1e-6"}
EXACT = "100"
"""An epsilon for noise that is 0 but for one answer in e^100."""


@pytest.fixture
def clock() -> Clock:
    return SystemClock()  # a curator dates its steps by it


@pytest.fixture
def server(tmp_path: Path, file: Path, clock: Clock) -> Iterator[LocalServer]:
    with LocalServer(file, clock, Settings(port=0, **data_settings(tmp_path))) as running:
        with Accountant(running.url, clock=clock) as owner:
            owner.as_owner("owner").open("survey", POLICY, schema=SCHEMA, as_given=True)
            owner.as_owner("owner").set_member("survey", "curator", roles=["curator"])
        yield running


@pytest.fixture
def ledger(server: LocalServer, clock: Clock, store: None) -> Iterator[Accountant]:
    with Accountant(server.url, analyst="ana", clock=clock) as client:
        yield client


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCOUNTANT_ANSWERS", str(tmp_path / "results.db"))


Ask = Callable[[Accountant], PrivateAnswer]
SOUTH = PEOPLE // 2
AGES = [20 + i % 60 for i in range(PEOPLE)]
EVERY: dict[str, tuple[Ask, Any]] = {
    "count": (lambda ledger: ledger.count("survey", epsilon=EXACT), [PEOPLE]),
    "count where": (
        lambda ledger: ledger.count("survey", where="age < 21", epsilon=EXACT),
        [sum(i % 60 == 0 for i in range(PEOPLE))],
    ),
    "count by": (lambda ledger: ledger.count("survey", by="region", epsilon=EXACT), [SOUTH] * 2),
    "histogram": (
        lambda ledger: ledger.histogram("survey", "region", epsilon=EXACT),
        [SOUTH] * 2,
    ),
    "sum": (
        lambda ledger: ledger.sum("survey", "age", epsilon="1000"),
        pytest.approx([sum(AGES)], abs=3),
    ),
    "mean": (
        lambda ledger: ledger.mean("survey", "age", epsilon="1000"),
        pytest.approx([sum(AGES) / PEOPLE], abs=0.1),
    ),
    "variance": (
        lambda ledger: ledger.variance("survey", "age", epsilon="1000"),
        pytest.approx([statistics.pvariance(AGES)], abs=20),
    ),
    "quantile": (
        lambda ledger: ledger.quantile("survey", "age", "0.5", epsilon="1000"),
        pytest.approx([statistics.median(AGES)], abs=2),
    ),
    "top": (
        lambda ledger: ledger.top("survey", "region", 1, where="age = 20", epsilon="1000"),
        ["south"],
    ),
    "text": (
        lambda ledger: ledger.answer("survey", "count where region = 'north'", epsilon=EXACT),
        [SOUTH],
    ),
    "session": (
        lambda ledger: ledger.count("survey", rho="50", stop="error: 30 at 0.9"),
        pytest.approx([PEOPLE], abs=60),
    ),
}


@pytest.mark.parametrize("name", EVERY)
def test_each_statistic_is_answered(ledger: Accountant, name: str) -> None:
    ask, exact = EVERY[name]
    answer = ask(ledger)
    values = [each if isinstance(each, str) else float(each) for each in answer.values]
    assert values == exact
    assert str(answer)
    assert answer == ledger.find_answer("survey", answer.request_id)


def test_several_statistics_are_one_request_with_a_column_each(ledger: Accountant) -> None:
    text = "count, mean(age), median(age) by region"
    answer = ledger.answer("survey", text, epsilon="300", weights=[1, 1, 1])
    assert answer.cost == {"epsilon": 300}
    count, mean, _ = answer.columns
    assert answer.columns[count].values == [SOUTH] * 2
    assert [float(each) for each in answer.columns[mean].values] == pytest.approx(
        [statistics.mean(AGES[i::2]) for i in (1, 0)], abs=0.5
    )
    assert len(answer.groups) == 2
    frame = answer.to_pandas()
    assert list(frame.columns[:4]) == ["region", "count", "count low", "count high"]
    for name in ("value", "values", "interval", "intervals"):
        with pytest.raises(ValueError, match=r"Read `columns\['count'\]"):
            getattr(answer, name)
    assert answer == ledger.find_answer("survey", answer.request_id)
    with pytest.raises(RequestInvalid, match="one for each statistic"):
        ledger.answer("survey", text, epsilon="1", weights="1 2")


def test_an_answer_has_value_interval_and_noise(ledger: Accountant) -> None:
    answer = ledger.count("survey", where="age > 65", epsilon="0.5")
    assert answer.interval is not None
    low, high = answer.interval
    assert low <= Decimal(answer.value) <= high
    assert answer.confidence == Decimal("0.95")
    assert answer.cost == {"epsilon": Decimal("0.5")}
    (noise,) = answer.noise
    assert (noise.law, noise.scale) == ("discrete_laplace", "2")
    assert float(answer) == float(answer.value)
    assert str(answer).startswith(f"count where age > 65: {answer.value} ± ")
    assert "<table>" in answer._repr_html_()
    assert answer.groups == [()]


def test_an_answer_says_what_it_left_of_the_budget(ledger: Accountant) -> None:
    answer = ledger.count("survey", epsilon="0.5", request_id=(name := new_id(SystemClock())))
    assert answer.left == {
        sum_: Decimal(amount) for sum_, amount in dict(ledger.dataset("survey").left).items()
    }
    assert "the dataset has " in str(answer)
    assert "the dataset has " in answer._repr_html_()
    again = ledger.count("survey", epsilon="0.5", request_id=name)
    assert again == answer
    assert again.left == {}  # others may have spent since
    assert "the dataset has " not in str(again)
    assert "ended" not in str(answer)
    session = ledger.count("survey", rho="50", stop="error: 30 at 0.9")
    assert session.left == {}  # it settles at less


def test_groups_become_a_table(ledger: Accountant) -> None:
    answer = ledger.count("survey", by=["region"], epsilon=EXACT)
    assert answer.groups == [("north",), ("south",)]
    with pytest.raises(ValueError, match="has 2 values"):
        _ = answer.value
    frame = answer.to_pandas()
    assert list(frame.columns) == ["region", "value", "low", "high"]
    assert frame["value"].tolist() == [SOUTH, SOUTH]
    assert frame["value"].dtype == "int64"
    assert answer.to_arrow().to_pydict()["region"] == ["north", "south"]
    means = ledger.mean("survey", "age", by="region", epsilon="1").to_pandas()
    assert means["value"].dtype == "float64"
    best = ledger.top("survey", "region", 2, epsilon="1").to_pandas()
    assert best["rank"].tolist() == [1, 2]
    assert set(best["value"]) == {"north", "south"}


def test_a_table_without_its_library_names_it(
    ledger: Accountant, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = ledger.count("survey", epsilon="1")

    def missing(name: str) -> None:
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr(frames, "import_module", missing)
    with pytest.raises(ImportError, match="to_pandas needs pandas"):
        answer.to_pandas()
    with pytest.raises(ImportError, match="to_arrow needs pyarrow"):
        answer.to_arrow()


def test_a_name_has_one_answer(ledger: Accountant, tmp_path: Path) -> None:
    first = ledger.count("survey", epsilon="1", once="all")
    assert ledger.count("survey", epsilon="1", once="all") == first
    with pytest.raises(NameTaken):
        ledger.count("survey", epsilon="2", once="all")
    assert granted(ledger) == 1


def test_a_name_that_is_nearly_another_is_asked_back(ledger: Accountant) -> None:
    ledger.count("survey", epsilon="1", once="all-10")
    with pytest.raises(SimilarName, match="nearly 'all-10'"):
        ledger.count("survey", epsilon="1", once="All-1O")
    assert granted(ledger) == 1
    ledger.count("survey", epsilon="1", once="All-1O", new=True)
    assert granted(ledger) == 2


def test_a_lost_store_costs_no_second_charge(ledger: Accountant, tmp_path: Path) -> None:
    request_id = ledger.new_request_id()
    first = ledger.count("survey", epsilon="1", request_id=request_id)
    for each in tmp_path.glob("results.db*"):
        each.unlink()
    again = ledger.count("survey", epsilon="1", request_id=request_id)
    assert again == first
    assert again.record.grant == first.record.grant
    assert granted(ledger) == 1


def test_an_id_of_another_question_is_a_conflict(ledger: Accountant) -> None:
    request_id = ledger.count("survey", epsilon="1").request_id
    for other in ({"epsilon": "2"}, {"epsilon": "1", "where": "age > 3"}):
        with pytest.raises(NotGranted) as caught:
            ledger.count("survey", request_id=request_id, **other)  # type: ignore[arg-type]
        assert caught.value.reason == "conflict"


def test_an_answer_outlives_the_memory_of_its_id(file: Path, tmp_path: Path, store: None) -> None:
    clock = TestClock()
    with (
        LocalServer(file, clock, Settings(port=0, **data_settings(tmp_path))) as running,
        Accountant(running.url, analyst="ana", clock=clock) as ledger,
    ):
        ledger.as_owner("owner").open("survey", POLICY, schema=SCHEMA, as_given=True)
        first = ledger.count("survey", epsilon="1", once="all")
        for each in tmp_path.glob("results.db*"):
            each.unlink()
        clock.pass_(seconds=7200)
        assert not ledger.ask("survey", "pure:1", request_id=first.request_id).repeated
        again = ledger.count("survey", epsilon="1", request_id=first.request_id)
        assert again == first
        assert granted(ledger) == 1


def test_the_same_question_again_warns(ledger: Accountant) -> None:
    ledger.count("survey", epsilon="1")
    with pytest.warns(Warning, match="survey was released before with count") as caught:
        ledger.count("survey", epsilon="1")
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ledger.count("survey", epsilon="1", purpose="another one")


def granted(ledger: Accountant) -> int:
    return ledger.dataset("survey").outcomes.get("granted", 0)  # type: ignore[call-overload, no-any-return]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no noise": ({}, "noise must be one of"),
    "two": ({"epsilon": "1", "rho": "1"}, "got epsilon and rho"),
    "a float": ({"epsilon": 1 / 3}, 'write epsilon="0.3333333333333333"'),
    "a float of numpy": ({"epsilon": 3 * np.float64(0.1)}, 'write epsilon="0.30000000000000004"'),
    "a small float": ({"epsilon": np.float32(1e-5) / 3}, 'write epsilon="0.0000033333333"'),
    "a column": ({"epsilon": "1", "where": "agee > 3"}, "did you mean age"),
    "no text": ({"epsilon": "1", "where": 3}, "where must be text"),
    "rows": ({"epsilon": "1", "rows": 2}, "rows must be between 1 and 1"),
    "rows as text": ({"epsilon": "1", "rows": "1"}, "rows must be a whole number"),
    "by": ({"epsilon": "1", "by": ["age"]}, "category or boolean"),
    "by a number": ({"epsilon": "1", "by": 3}, "must be a list"),
    "law": ({"epsilon": "1", "law": "laplace"}, "noise.law must be"),
    "confidence": ({"epsilon": "1", "confidence": "0.9"}, "given with error"),
    "stop": ({"epsilon": "1", "law": "discrete_laplace", "relative_error": "0.1"}, "stop must be"),
    "two stops": ({"epsilon": "1", "stop": "error: 1", "relative_error": "0.1"}, "left out where"),
    "no stop": ({"epsilon": "1", "law": "laplace_reduction"}, "stop must be given"),
    "first": ({"epsilon": "1", "first": "9"}, "noise.first must be left out"),
    "wait": ({"epsilon": "1", "wait": -1}, "wait must be"),
    "both ids": ({"epsilon": "1", "once": "a", "request_id": "b"}, "excludes"),
}


def test_numbers_that_were_typed_are_taken() -> None:
    for typed in (0.5, np.float64(0.5), np.float32(0.5)):
        assert noise_of(epsilon=typed) == noise_of(epsilon="0.5")
    assert noise_of(sigma=20.0) == noise_of(sigma="20")
    assert noise_of(rho=np.float32(1e-5)) == noise_of(rho="0.00001")
    assert question_of("quantile", column="age", fraction=0.9) == question_of(
        "quantile", column="age", fraction="0.9"
    )


def test_whole_numbers_of_numpy_are_taken() -> None:
    assert question_of("count", rows=np.int64(1)) == question_of("count", rows=1)
    assert noise_of(sigma=np.int64(20)) == noise_of(sigma="20")


def test_a_wrong_question_is_not_sent(ledger: Accountant) -> None:
    def check_case(name: str) -> None:
        arguments, why = WRONG[name]
        with pytest.raises(RequestInvalid, match=why):
            ledger.count("survey", **arguments)
        assert ledger.dataset("survey").sequence == 2  # its opening and the curator

    check_each(check_case, WRONG)


def test_unknown_arguments_and_datasets(ledger: Accountant) -> None:
    with pytest.raises(TypeError, match="epsilom"):
        ledger.count("survey", epsilom="1")  # type: ignore[call-arg]
    with pytest.raises(UnknownDataset, match="survey"):
        ledger.count("survei", epsilon="1")
    ledger.as_owner("owner").open("bare", POLICY, as_given=True)
    with pytest.raises(RequestInvalid, match="opened without a schema"):
        ledger.count("bare", epsilon="1")
    with pytest.raises(RequestInvalid, match="did you mean count"):
        ledger.answer("survey", "cont", epsilon="1")


def test_an_answer_says_what_its_question_ended(tmp_path: Path, clock: Clock, store: None) -> None:
    policy = {"filter": "zcdp_tight", "epsilon": "10", "delta": "1e-6", "beside": "basic"}
    settings = Settings(port=0, **data_settings(tmp_path))
    with (
        LocalServer(tmp_path / "l.db", clock, settings) as server,
        Accountant(server.url, analyst="ana", clock=clock) as ledger,
    ):
        ledger.as_owner("owner").open("beside", policy, schema=SCHEMA, as_given=True)
        assert "ended" not in str(ledger.count("beside", epsilon="0.1"))
        first = ledger.count("beside", rho="0.001")  # its claim has no epsilon
        ended = "the question ended simple addition for good; only the filter"
        assert ended in str(first)
        assert ended in first._repr_html_()
        assert "ended" not in str(ledger.count("beside", rho="0.002"))


def test_a_refusal_says_why_and_charges_nothing(tmp_path: Path, clock: Clock, store: None) -> None:
    small = {"filter": "zcdp", "rho": "0.1", "delta": "1e-6"}
    settings = Settings(port=0, **data_settings(tmp_path))
    with (
        LocalServer(tmp_path / "l.db", clock, settings) as server,
        Accountant(server.url, analyst="ana", clock=clock) as ledger,
    ):
        ledger.as_owner("owner").open("small", small, schema=SCHEMA, as_given=True)
        with pytest.raises(NotGranted, match="small not granted: exhausted") as caught:
            ledger.count("small", epsilon="2")
        assert caught.value.fits is not None
        assert ledger.dataset("small").spent_ratio == 0
        with pytest.raises(NotGranted, match=r"question_not_allowed.* noise\.law needs a member"):
            ledger.count("small", relative_error="0.1", epsilon="0.1")
        assert ledger.dataset("small").spent_ratio == 0


def test_a_question_that_cannot_be_run_fails(
    ledger: Accountant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_unreadable(tmp_path, monkeypatch)
    with pytest.raises(AnswerFailed, match="its cost stays charged") as caught:
        ledger.count("survey", epsilon="1", once="all")
    assert caught.value.request_id
    with pytest.raises(AnswerFailed):  # it is the answer of this name for ever
        ledger.count("survey", epsilon="1", once="all")
    assert granted(ledger) == 1
    with pytest.raises(AnswerFailed):
        ledger.find_answer("survey", caught.value.request_id)
    answers = ledger.answers("survey")
    assert len(answers) == 1
    assert answers[0].outcome == "failed"


def test_a_slow_answer_is_read_later(file: Path, clock: Clock, tmp_path: Path, store: None) -> None:
    settings = Settings(port=0, **data_settings(tmp_path) | {"curator_tick_seconds": 3})
    with (
        LocalServer(file, clock, settings) as running,
        Accountant(running.url, analyst="ana", clock=clock) as ledger,
    ):
        ledger.as_owner("owner").open("survey", POLICY, schema=SCHEMA, as_given=True)
        ledger.count("survey", epsilon="1", once="first")  # the next tick is 3 seconds away
        with pytest.raises(NotYetAnswered, match="never charged twice") as caught:
            ledger.count("survey", epsilon="1", wait=0.5, once="all")
        assert ledger.find_answer("survey", caught.value.request_id) is None
        answer = ledger.count("survey", epsilon="1", once="all")
        assert answer.request_id == caught.value.request_id
        assert granted(ledger) == 2


def test_without_a_server_that_answers_nothing_is_charged(
    file: Path, clock: Clock, tmp_path: Path, store: None
) -> None:
    with (
        LocalServer(file, clock) as running,
        Accountant(running.url, analyst="ana", clock=clock) as ledger,
    ):
        ledger.as_owner("owner").open("survey", POLICY, schema=SCHEMA, as_given=True)
        with pytest.raises(NoAnswers, match="ACCOUNTANT_DATA_SOURCES"):
            ledger.count("survey", epsilon="1", once="all")
        with pytest.raises(NoAnswers):
            ledger.answers("survey")
        assert granted(ledger) == 0
    with Accountant(f"sqlite:///{tmp_path / 'own.db'}", analyst="ana") as ledger:
        ledger.as_owner("owner").open("survey", POLICY, schema=SCHEMA, as_given=True)
        with pytest.raises(NoAnswers, match="accountant serve"):
            ledger.count("survey", epsilon="1")
        assert granted(ledger) == 0


def test_a_question_is_previewed(ledger: Accountant) -> None:
    asked = ledger.question("survey", "count by region", rho="0.01")
    preview = ledger.cost("survey", asked)
    assert preview.granted
    assert preview.derived
    assert preview.cost is not None
    assert preview.cost["rho"] == "0.01"
    session = ledger.question("survey", "count", relative_error="0.1", rho="0.01", first="100")
    assert ledger.cost("survey", session).granted
    assert granted(ledger) == 0
    reply = ledger.ask("survey", asked)
    assert reply.granted
    found = ledger.find_answer("survey", reply.request_id, wait=20)
    assert found is not None
    assert found.record.grant == reply.hash


def test_accuracy_first_costs_what_it_needs(ledger: Accountant) -> None:
    answer = ledger.count("survey", relative_error="0.1", confidence="0.9", epsilon="50")
    assert answer.record.stopped
    assert answer.cost["epsilon"] < 50
    assert abs(Decimal(answer.value) - PEOPLE) <= 20
    assert answer.record.reserved_cost == {"epsilon": "50"}


def test_the_asynchronous_client_asks_the_same(
    server: LocalServer, clock: Clock, store: None
) -> None:
    async def ask() -> None:
        async with AsyncAccountant(server.url, analyst="ana", clock=clock) as ledger:
            asked = [ledger.count("survey", where=f"age > {k}", epsilon=EXACT) for k in (20, 40)]
            first, second = await asyncio.gather(*asked)
            assert Decimal(first.value) > Decimal(second.value)
            assert await ledger.find_answer("survey", first.request_id) == first
            assert [each.outcome for each in await ledger.answers("survey")] == ["answered"] * 2
            with pytest.raises(RequestInvalid):
                await ledger.sum("survey", "region", epsilon="1")

    asyncio.run(ask())
