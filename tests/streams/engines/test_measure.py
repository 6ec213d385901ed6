"""`ledger.measure`: one call claims a measurement's own map, and runs that very measurement."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import opendp.prelude as dp
import pytest
from opendp.context import Query
from opendp.mod import OpenDPException

from accountant.errors import RequestInvalid
from accountant.records.outcomes import Outcome
from accountant.records.requests import MechanismRequest
from streams.client import (
    Accountant,
    AccountantWarning,
    AsyncAccountant,
    NameTaken,
    NotGranted,
)
from tests.every_case import every_case
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer

dp.enable_features("contrib", "honest-but-curious")

decode = msgspec.json.Decoder(MechanismRequest).decode
NUMBERS = dp.vector_domain(dp.atom_domain(T=int))
RECORDS = NUMBERS, dp.symmetric_distance()
SIZED = dp.vector_domain(dp.atom_domain(bounds=(0, 10)), size=100), dp.change_one_distance()
DATA = [1] * 1000
FAR = 40
"""Scales of noise that never come up in a test."""


def count(scale: float = 20.0) -> Any:
    return dp.t.make_count(*RECORDS) >> dp.m.then_laplace(scale=scale)


def total() -> Any:
    """A sum that compares replaced records; one value moves it by 10 at most."""
    return dp.t.make_metric_unbounded(*SIZED) >> dp.t.then_sum() >> dp.m.then_laplace(scale=20.0)


def context(contributions: int = 1, **loss: float) -> Any:
    return dp.Context.compositor(
        data=DATA,
        privacy_unit=dp.unit_of(contributions=contributions),
        privacy_loss=dp.loss_of(**loss),
        split_evenly_over=2,
        domain=NUMBERS,
    )


class Counts:
    """A measurement's own function that counts its calls; its map is epsilon for each record."""

    def __init__(self, epsilon: float = 0.25, error: Exception | None = None) -> None:
        self.calls = 0
        self.error = error
        self.measurement = dp.m.make_user_measurement(
            *RECORDS, dp.max_divergence(), self._draw, lambda d_in: epsilon * d_in
        )

    def _draw(self, _: object) -> int:
        self.calls += 1
        if self.error is not None:
            raise self.error
        return self.calls


@pytest.fixture(autouse=True)
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCOUNTANT_ANSWERS", str(tmp_path / "private" / "answers.db"))


def opened(ledger: Accountant) -> Accountant:
    policy = {"filter": "basic", "epsilon": "1", "delta": "1e-6", "unit": "patient"}
    ledger.as_owner("owner").open("census", policy, as_given=True)
    ledger.as_owner("owner").open("clinic", {**policy, "neighbours": "replace"}, as_given=True)
    return ledger


@pytest.fixture(params=["in process", "http"])
def ledger(request: pytest.FixtureRequest, file: Path, clock: TestClock) -> Iterator[Accountant]:
    url = f"sqlite:///{file}"
    if request.param == "in process":
        with Accountant(url, clock=clock, analyst="ana") as client:
            yield opened(client)
        return
    with (
        LocalServer(file, clock) as server,
        Accountant(server.url, clock=clock, analyst="ana") as client,
    ):
        yield opened(client)


def spent(ledger: Accountant, dataset: str = "census") -> Decimal:
    return Decimal(ledger.dataset(dataset).totals["epsilon"])


def asked(ledger: Accountant, dataset: str = "census") -> list[Any]:
    decided = ledger.requests(dataset)
    return [decode(each.request) for each in decided if each.outcome is Outcome.GRANTED]


def test_a_measurement_is_claimed_by_its_map_and_runs(ledger: Accountant) -> None:
    result = ledger.measure("census", count(), DATA, purpose="people")
    assert type(result) is int
    assert abs(result - 1000) < 20 * FAR
    (request,) = asked(ledger)
    assert (request.unit, request.neighbours, request.purpose) == (
        *("patient", "add_remove", "people"),
    )
    assert Fraction(1, 20) <= Fraction(request.claim.epsilon) <= Fraction(1, 20) + Fraction(1e-12)


def test_a_function_that_answers_queries_is_not_returned_where_its_claim_has_a_delta(
    ledger: Accountant,
) -> None:
    measure = dp.approximate(dp.max_divergence())
    live = dp.c.make_adaptive_composition(*RECORDS, measure, d_in=1, d_mids=[(0.1, 1e-7)])
    loss = {True: lambda d_in: (0.1 * d_in, 1e-7 * d_in), False: lambda d_in: (0.1 * d_in, 0.0)}
    results = (
        *((True, lambda _: live(DATA)), (True, lambda _: [live(DATA)])),
        *((True, lambda _: {"live": live(DATA)}), (False, lambda _: live(DATA))),
    )
    returned = []
    for has_delta, function in results:
        own = dp.m.make_user_measurement(*RECORDS, measure, function, loss[has_delta])
        with warnings.catch_warnings(), contextlib.suppress(RequestInvalid):
            warnings.simplefilter("ignore")
            ledger.measure("census", own, DATA, once=f"{len(asked(ledger))}")
            returned.append(has_delta)
    assert returned == [False]
    assert len(asked(ledger)) == len(results)


def test_the_very_measurement_that_was_claimed_runs(ledger: Accountant) -> None:
    counted = Counts()
    names = ("first", "second")
    assert [ledger.measure("census", counted.measurement, DATA, once=each) for each in names] == [
        *(1, 2)
    ]
    assert spent(ledger) == Decimal("0.5")


@pytest.mark.parametrize(("d_in", "epsilon"), [(None, "0.25"), (1, "0.25"), (3, "0.75")])
def test_the_distance_is_how_many_records_a_unit_has(
    ledger: Accountant, d_in: int | None, epsilon: str
) -> None:
    ledger.measure("census", Counts().measurement, DATA, d_in=d_in)
    assert spent(ledger) == Decimal(epsilon)


def test_a_refused_measurement_does_not_run(ledger: Accountant) -> None:
    counted = Counts()
    with pytest.raises(NotGranted, match="exhausted") as raised:
        ledger.measure("census", counted.measurement, DATA, d_in=5)
    assert (raised.value.reply.granted, raised.value.fits) == (False, "pure:1")
    with pytest.raises(NotGranted, match="unknown_dataset"):
        ledger.measure("nowhere", counted.measurement, DATA)
    assert (counted.calls, spent(ledger)) == (0, 0)


def test_a_name_returns_the_stored_result_and_charges_once(ledger: Accountant) -> None:
    counted = Counts()
    for _ in range(3):
        assert ledger.measure("census", counted.measurement, DATA, once="people") == 1
    assert (counted.calls, spent(ledger)) == (1, Decimal("0.25"))
    with pytest.raises(NameTaken):
        ledger.measure("census", counted.measurement, DATA, d_in=2, once="people")
    assert (counted.calls, spent(ledger)) == (1, Decimal("0.25"))
    with pytest.warns(AccountantWarning, match='pass once="NAME"') as warned:
        ledger.measure("census", counted.measurement, DATA)
    assert warned[0].filename == __file__


def test_an_error_on_the_data_stays_charged_and_a_retry_charges_nothing(
    ledger: Accountant,
) -> None:
    fails = Counts(error=ValueError("no such value"))
    with pytest.raises(OpenDPException, match="no such value"):
        ledger.measure("census", fails.measurement, DATA, once="people")
    assert spent(ledger) == Decimal("0.25")
    fails.error = None
    assert ledger.measure("census", fails.measurement, DATA, once="people") == 2
    assert spent(ledger) == Decimal("0.25")
    with pytest.raises(TypeError, match="expected i32"):
        ledger.measure("census", count(), ["text"])
    assert spent(ledger) > Decimal("0.25")


def test_the_metric_must_fit_the_neighbours_of_the_dataset(ledger: Accountant) -> None:
    counted = Counts()
    with pytest.raises(RequestInvalid, match=r"input_metric must compare replaced .*or pass neigh"):
        ledger.measure("clinic", counted.measurement, DATA, d_in=2)
    with pytest.raises(RequestInvalid, match="input_metric must count records added or removed"):
        ledger.measure("census", total(), [1] * 100)
    with pytest.raises(RequestInvalid, match="neighbours must be left out for this dataset"):
        ledger.measure("census", counted.measurement, DATA, d_in=2, neighbours="replace")
    assert (counted.calls, spent(ledger), spent(ledger, "clinic")) == (0, 0, 0)
    assert asked(ledger) == asked(ledger, "clinic") == []
    assert abs(ledger.measure("clinic", total(), [1] * 100) - 100) < 20 * FAR
    assert spent(ledger, "clinic") == Decimal("0.5")


def test_a_replaced_record_counts_as_two(ledger: Accountant) -> None:
    counted = Counts()
    with pytest.raises(RequestInvalid, match="d_in must be even"):
        ledger.measure("clinic", counted.measurement, DATA, neighbours="replace")
    ledger.measure("clinic", counted.measurement, DATA, d_in=2, neighbours="replace")
    assert (counted.calls, spent(ledger, "clinic")) == (1, Decimal("0.5"))


@every_case(
    ("measurement", "arguments", "said"),
    [
        (count(), {"d_in": 1.0}, "d_in must be a whole number"),
        (count(), {"d_in": 0}, "d_in must be at least 1"),
        (count(), {"d_in": True}, "d_in must be a whole number"),
        (count(0.0), {}, "epsilon must be finite"),
        (Counts(math.inf).measurement, {}, "epsilon must be finite"),
        (Counts(math.nan).measurement, {}, "epsilon must be finite"),
        (count(), {"delta": "1e-6"}, "delta must be left out"),
        (dp.m.make_randomized_response_bool(0.75), {}, "input_metric must count records"),
    ],
)
def test_a_measurement_without_a_claim_is_refused_before_the_ledger_is_reached(
    measurement: Any, arguments: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with (
        Accountant(f"sqlite:///{tmp_path / 'none.db'}", analyst="ana") as ledger,
        pytest.raises(RequestInvalid, match=said),
    ):
        ledger.measure("census", measurement, DATA, **arguments)


class Cheap(dp.Measurement):
    """Has a map of its own."""

    _type_ = dp.Measurement._type_


@every_case(
    ("value", "said"),
    [
        (None, "got NoneType"),
        ("pure:0.1", "got str"),
        (len, "got builtin_function"),
        (Cheap(), "got Cheap"),
        (dp.t.make_count(*RECORDS), "got Transformation. It adds no noise yet"),
        (dp.m.then_laplace(scale=1.0), "PartialConstructor. Chain it to a data set"),
    ],
)
def test_a_non_measurement_is_refused(value: Any, said: str, tmp_path: Path) -> None:
    with (
        Accountant(f"sqlite:///{tmp_path / 'none.db'}", analyst="ana") as ledger,
        pytest.raises(TypeError, match=said),
    ):
        ledger.measure("census", value, DATA)


def test_a_measurement_needs_data(ledger: Accountant) -> None:
    with pytest.raises(RequestInvalid, match="data must be passed"):
        ledger.measure("census", count())
    assert spent(ledger) == 0


def test_a_privacy_curve_is_read_at_a_delta(ledger: Accountant) -> None:
    gaussian = dp.t.make_count(*RECORDS) >> dp.m.then_gaussian(scale=20.0)
    curve = dp.c.make_zCDP_to_approxDP(gaussian)
    assert abs(ledger.measure("census", curve, DATA, delta="1e-7") - 1000) < 20 * FAR
    (request,) = asked(ledger)
    assert request.claim.delta == "0.0000001"
    assert Fraction(request.claim.epsilon) >= Fraction(curve.map(1).epsilon(1e-7))


@pytest.mark.parametrize("contributions", [1, 3])
def test_a_query_of_a_context_is_charged_and_run_in_one_call(
    ledger: Accountant, contributions: int
) -> None:
    made = context(contributions, epsilon=0.5)
    result = ledger.measure("census", made.query().count().laplace(), once="people")
    assert abs(result - 1000) < 12 * FAR
    assert Decimal("0.25") >= spent(ledger) > Decimal("0.2499")
    assert made.remaining_privacy_loss() == [0.25]  # the Context has counted it, too
    assert ledger.measure("census", made.query().count().laplace(), once="people") == result
    assert made.remaining_privacy_loss() == [0.25]


def test_a_query_of_a_zcdp_context(file: Path, clock: TestClock) -> None:
    with Accountant(f"sqlite:///{file}", clock=clock, analyst="ana") as ledger:
        ledger.as_owner("owner").open("census", {"filter": "zcdp", "rho": "1"})
        made = context(rho=0.002)
        assert abs(ledger.measure("census", made.query().count().gaussian()) - 1000) < 32 * FAR
        (request,) = asked(ledger)
        assert Fraction("0.0009") < Fraction(request.claim.rho) < Fraction("0.0010001")


def test_a_context_that_would_refuse_is_found_before_anything_is_charged(
    ledger: Accountant,
) -> None:
    made = context(epsilon=0.5)
    three = [made.query().count().laplace() for _ in range(3)]
    for query in three[:2]:
        ledger.measure("census", query, once=f"count {id(query)}")
    before = spent(ledger)
    with pytest.raises(RequestInvalid, match="at most what its Context has for its next query"):
        ledger.measure("census", three[2])
    other = context(epsilon=0.5)
    with pytest.raises(RequestInvalid, match="at most what its Context has for its next query"):
        ledger.measure("census", other.query().count().laplace(scale=1.0))
    assert (spent(ledger), other.remaining_privacy_loss()) == (before, [0.25, 0.25])


@every_case(
    ("query", "arguments", "said"),
    [
        (context(epsilon=1.0).query().count().laplace(), {"data": DATA}, "data must be left out"),
        (context(epsilon=1.0).query().count().laplace(), {"d_in": 1}, "d_in must be left out"),
        (context(epsilon=1.0).query().count(), {}, "must be a query that OpenDP can resolve"),
        (
            context(epsilon=1.0).query().compositor(split_evenly_over=2),
            *({}, "must draw a result, not make a Context"),
        ),
        (
            Query(RECORDS, dp.max_divergence(), d_in=1, d_out=0.5).count().laplace(),
            *({"data": DATA}, r"must be of a Context; otherwise pass query\.resolve"),
        ),
    ],
)
def test_a_query_that_cannot_be_claimed_is_refused(
    query: Any, arguments: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with (
        Accountant(f"sqlite:///{tmp_path / 'none.db'}", analyst="ana") as ledger,
        pytest.raises(RequestInvalid, match=said),
    ):
        ledger.measure("census", query, **arguments)


def test_a_context_of_other_neighbours_is_refused(ledger: Accountant) -> None:
    made = context(epsilon=0.5)
    with pytest.raises(RequestInvalid, match="must compare replaced records"):
        ledger.measure("clinic", made.query().count().laplace())
    pairs = context(2, epsilon=0.5)
    ledger.measure("clinic", pairs.query().count().laplace(), neighbours="replace")
    assert Decimal("0.2499") < spent(ledger, "clinic") <= Decimal("0.25")
    assert made.remaining_privacy_loss() == [0.25, 0.25]


async def test_the_async_client_does_the_same(file: Path, clock: TestClock) -> None:
    async with AsyncAccountant(f"sqlite:///{file}", clock=clock, analyst="ana") as ledger:
        await ledger.as_owner("owner").open(
            "census", {"filter": "basic", "epsilon": "1"}, as_given=True
        )
        counted = Counts()
        assert await ledger.measure("census", counted.measurement, DATA, once="people") == 1
        assert await ledger.measure("census", counted.measurement, DATA, once="people") == 1
        made = context(epsilon=0.5)
        result = await ledger.measure("census", made.query().count().laplace(), purpose="again")
        assert abs(result - 1000) < 4 * FAR
        assert made.remaining_privacy_loss() == [0.25]
        with pytest.raises(NotGranted):
            await ledger.measure("census", counted.measurement, DATA, d_in=3)
        assert Decimal((await ledger.dataset("census")).totals["epsilon"]) > Decimal("0.49")


def test_a_compositor_is_charged_whole_and_returned_once(ledger: Accountant) -> None:
    composed = dp.c.make_adaptive_composition(*RECORDS, dp.max_divergence(), 1, [0.25, 0.25])
    with pytest.warns(AccountantWarning, match="returned this once"):
        queryable = ledger.measure("census", composed, DATA)
    assert spent(ledger) == Decimal("0.5")
    assert abs(queryable(count(4.0)) - 1000) < 4 * FAR
