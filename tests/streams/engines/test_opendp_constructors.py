"""Each constructor of OpenDP has a claim that covers its loss, enumerated by hand, or none."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import opendp.combinators
import opendp.measurements
import opendp.prelude as dp
import pytest

from accountant.claims import Interactive
from accountant.claims.text import parse_claim
from accountant.errors import RequestInvalid
from streams.client import Accountant, AccountantWarning
from streams.engines.opendp import opendp_claim
from streams.engines.opendp_constructors import INTERACTIVE, ONE_RELEASE, REFUSED
from tests.every_case import check_rows
from tests.nightly import rounds
from tests.streams.engines.laws import Law, covers, part_used
from tests.streams.engines.opendp_table import (
    APPROXIMATE,
    APPROXIMATE_ZCDP,
    COMBINATORS,
    MEASUREMENTS,
    RECORDS,
    Enumerated,
    Refused,
    Stated,
    composed,
    laplace,
    laplace_threshold,
)

TABLE = {**MEASUREMENTS, **COMBINATORS}
DRAWS = rounds(60, 5_000)


def constructors(module: ModuleType) -> set[str]:
    found = {name for name in vars(module) if name.startswith("make_")}
    return found - {"make_proof_link"}


@pytest.fixture(autouse=True)
def deprecated() -> Iterator[None]:
    """Make constructors that OpenDP has renamed, too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def test_every_constructor_of_the_installed_version_is_in_the_table() -> None:
    assert constructors(opendp.measurements) - MEASUREMENTS.keys() == set()
    assert constructors(opendp.combinators) - COMBINATORS.keys() == set()


def test_the_adapter_knows_every_constructor_of_the_table_and_no_other() -> None:
    known = [ONE_RELEASE, INTERACTIVE, REFUSED.keys() - {"make_b_ary_tree"}]
    assert set[str]().union(*known) == TABLE.keys()
    assert sum(map(len, known)) == len(TABLE), "none is of two kinds"


def rows(kind: type) -> list[tuple[str, int]]:
    return [
        (name, number)
        for name, entries in TABLE.items()
        for number, each in enumerate(entries)
        if isinstance(each, kind)
    ]


def named(measurement: Any) -> Iterator[str]:
    """Yield the constructors that a measurement was made by."""
    if isinstance(measurement, list | tuple):
        for each in measurement:
            yield from named(each)
    record = getattr(measurement, "__opendp_dict__", None)
    if record is not None:
        yield record["__function__"]
        for each in record["__kwargs__"].values():
            yield from named(each)


def test_a_claim_covers_the_loss_of_every_pair_of_neighbours() -> None:
    def check_case(name: str, number: int) -> None:
        entry = TABLE[name][number]
        assert isinstance(entry, Enumerated)
        made = entry.make()
        assert name in set(named(made))
        claim = opendp_claim(made, unit="person", delta=entry.delta).claim
        assert isinstance(claim, Interactive) is entry.interactive
        claim = claim.claim if isinstance(claim, Interactive) else claim
        laws = [(entry.law(one), entry.law(other)) for one, other in entry.pairs]
        for one, other in laws:
            assert math.fsum(one.values()) == pytest.approx(1)
            assert covers(claim, one, other)
        assert max(part_used(claim, *pair) for pair in laws) >= entry.least

    check_rows(check_case, rows(Enumerated))


def far(law: Law, seen: Counter[Any], draws: int) -> list[Any]:
    """Return the outputs that were drawn much more or less often than a law says."""
    wrong = [each for each in seen if law.get(each, 0.0) * draws < 1e-6]
    for each, probability in law.items():
        spread = math.sqrt(draws * probability * (1 - probability)) + 1
        if abs(seen[each] - draws * probability) > 6.5 * spread:
            wrong.append(each)
    return wrong


def test_the_engine_draws_from_the_laws_of_the_table() -> None:
    def check_case(name: str, number: int) -> None:
        entry = TABLE[name][number]
        assert isinstance(entry, Enumerated)
        made, data = entry.make(), entry.pairs[-1][0]
        seen = Counter(entry.show(made(data)) for _ in range(DRAWS))
        assert not far(entry.law(data), seen, DRAWS)

    check_rows(check_case, rows(Enumerated))


def test_a_measurement_that_is_not_enumerated_is_claimed_by_its_map() -> None:
    def check_case(name: str, number: int) -> None:
        entry = TABLE[name][number]
        assert isinstance(entry, Stated)
        if entry.make is not None:
            made = entry.make()
            assert name in set(named(made))
            assert opendp_claim(made, unit="person").claim == parse_claim(entry.claim)

    check_rows(check_case, rows(Stated))


def test_a_measurement_without_a_claim_is_refused() -> None:
    def check_case(name: str, number: int) -> None:
        entry = TABLE[name][number]
        assert isinstance(entry, Refused)
        made = entry.make()
        assert name in set(named(made))
        with pytest.raises((RequestInvalid, TypeError), match=entry.said):
            opendp_claim(made, unit="person")

    check_rows(check_case, rows(Refused))


def user_made(measure: Any, loss: Any) -> Any:
    return dp.m.make_user_measurement(*RECORDS, measure, len, lambda _: loss)


@pytest.mark.parametrize(
    "record",
    [
        None,
        {"__module__": "combinators", "__function__": "make_of_a_new_version", "__kwargs__": {}},
    ],
    ids=["no record", "an unknown constructor"],
)
def test_a_measurement_of_unknown_making_is_claimed_as_a_compositor(record: Any) -> None:
    made = user_made(APPROXIMATE, (0.5, 1e-7))
    rho = user_made(APPROXIMATE_ZCDP, (0.5, 1e-7))
    for each in (made, rho):
        if record is None:
            del each.__opendp_dict__
        else:
            each.__opendp_dict__ = record
    assert isinstance(opendp_claim(made, unit="person").claim, Interactive)
    with pytest.raises(RequestInvalid, match="must have no delta where it answers queries"):
        opendp_claim(rho, unit="person")


def test_a_ledger_counts_a_compositor_with_a_delta_as_interactive(file: Path) -> None:
    policy = {"filter": "basic", "epsilon": "2", "delta": "1e-6", "odometers": [{"type": "basic"}]}
    compositor = composed("make_adaptive_composition", APPROXIMATE, [(0.25, 1e-7)])()
    with Accountant(f"sqlite:///{file}", analyst="ana") as ledger:
        ledger.as_owner("owner").open("census", policy, as_given=True)
        with pytest.warns(AccountantWarning, match="returned this once"):
            queryable = ledger.measure("census", compositor, [1] * 1000)
        assert queryable(dp.c.make_approximate(laplace(4.0))) > 0
        (odometer,) = ledger.dataset("census").odometers.values()
        assert odometer == "inf"
        refused = composed("make_adaptive_composition", APPROXIMATE_ZCDP, [(0.25, 1e-7)])()
        before = ledger.dataset("census").totals
        with pytest.raises(RequestInvalid, match="must have no delta where it answers queries"):
            ledger.measure("census", refused, [1] * 1000)
        assert ledger.dataset("census").totals == before


def test_the_delta_of_a_threshold_leaves_out_what_is_shown_at_it() -> None:
    """A count of 1 is shown where its noise is 4 at least, and the map says 5 (issue 2922)."""
    made = laplace_threshold()
    shown = math.exp(-4) / (1 + math.exp(-1))
    assert made.map(1)[1] < 0.4 * shown
    draws = rounds(500, 5_000)
    drawn = sum(made([7]) != {} for _ in range(draws)) / draws
    assert abs(drawn - shown) < 6.5 * math.sqrt(shown / draws)
