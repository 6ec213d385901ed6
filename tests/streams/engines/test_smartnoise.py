"""The claims of queries, compared with SmartNoise's odometer after the run."""

from __future__ import annotations

from fractions import Fraction

import pytest

from accountant.claims import AllOf, Approximate, Pure
from accountant.errors import RequestInvalid
from streams.client import Accountant
from streams.engines.smartnoise import query_claim
from tests.every_case import every_case

pytestmark = pytest.mark.smartnoise


@pytest.fixture(scope="module")
def people():
    import pandas as pd

    rows = 500
    ages = [18 + (7 * row) % 70 for row in range(rows)]
    return pd.DataFrame({"pid": range(rows), "age": ages, "sex": [row % 2 for row in range(rows)]})


@pytest.fixture
def reader(people):
    from snsql import Privacy, from_df

    def make(epsilon=0.1, delta=1e-6, **options):
        columns = {
            "pid": {"type": "int", "private_id": not options.get("row_privacy")},
            "age": {"type": "int", "lower": 0, "upper": 100},
            "sex": {"type": "int"},
        }
        metadata = {"": {"db": {"people": {"max_ids": 1, **options, **columns}}}}
        return from_df(people, privacy=Privacy(epsilon=epsilon, delta=delta), metadata=metadata)

    return make


COUNT = "SELECT COUNT(*) AS n FROM db.people"
GROUPS = "SELECT sex, AVG(age) AS age, COUNT(*) AS n FROM db.people GROUP BY sex"
SPREAD = "SELECT VARIANCE(age) AS spread FROM db.people WHERE sex = 1"


def parts(claim):
    return list(claim.claims) if isinstance(claim, AllOf) else [claim]


@pytest.mark.parametrize("options", [{}, {"max_ids": 3}, {"row_privacy": True}])
@pytest.mark.parametrize("query", [COUNT, GROUPS, SPREAD])
def test_the_claim_equals_the_engines_odometer_after_the_query(reader, query, options):
    made = reader(**options)
    claim, unit, neighbours = query_claim(made, query, unit="person")
    assert (unit, neighbours) == ("person", "add_remove")
    made.execute(query)
    ran = made.odometer.steps
    ours = [(Fraction(p.epsilon), Fraction(getattr(p, "delta", "0"))) for p in parts(claim)]
    assert len(ours) == len(ran) > 0
    for (epsilon, delta), (its_epsilon, its_delta) in zip(ours, ran, strict=True):
        assert 0 <= epsilon - Fraction(its_epsilon) < Fraction(1, 10**18)
        # Its threshold is of a scale that its search exceeds a little.
        assert 0 <= delta - Fraction(its_delta) < Fraction(its_delta) / 10**5 + Fraction(1, 10**24)
    basic = sum(epsilon for epsilon, _ in ours)
    assert float(basic) == pytest.approx(made.get_privacy_cost(query)[0])


def test_only_the_hidden_count_of_units_has_a_delta(reader):
    kinds = [type(part) for part in parts(query_claim(reader(), GROUPS, unit="person").claim)]
    assert sorted(kinds, key=lambda kind: kind.__name__) == [Approximate, Pure, Pure, Pure]


def test_a_claim_does_not_run_the_query(reader):
    made = reader()
    query_claim(made, COUNT, unit="person")
    assert made.odometer.spent == (0.0, 0.0)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("use_dpsu", True),
        ("censor_dims", False),
        ("clamp_columns", False),
        ("sample_max_ids", False),
    ],
)
def test_metadata_that_shows_more_than_it_counts_is_refused(reader, option, value):
    with pytest.raises(RequestInvalid, match=f"metadata.{option} must be {not value}"):
        query_claim(reader(**{option: value}), GROUPS, unit="person")


def test_options_set_on_the_reader_are_ignored(reader):
    made = reader()
    made._options.censor_dims = False
    claim = query_claim(made, GROUPS, unit="person").claim
    made.execute(GROUPS)
    assert len(parts(claim)) == len(made.odometer.steps) == 4


@pytest.mark.parametrize(
    "query",
    [
        "SELECT age FROM db.people",
        "SELECT MAX(age) AS oldest FROM db.people",
        "SELECT COUNT(*) AS n FROM db.nobody",
        f"{COUNT}; {COUNT}",
        "DROP TABLE people",
        "",
        None,
    ],
)
def test_a_query_that_smartnoise_does_not_take_is_refused(reader, query):
    with pytest.raises(RequestInvalid, match=r"query must be a query that SmartNoise accepts \("):
        query_claim(reader(), query, unit="person")


def test_a_query_within_the_query_is_refused(reader):
    query = "SELECT COUNT(*) AS n FROM (SELECT pid, age FROM db.people) AS t"
    with pytest.raises(RequestInvalid, match="must read one table"):
        query_claim(reader(), query, unit="person")


def test_the_hidden_groups_are_claimed_too(reader):
    query, made = "SELECT sex FROM db.people GROUP BY sex", reader()
    claim = query_claim(made, query, unit="person").claim
    assert type(claim) is Approximate
    made.execute(query)
    assert made.odometer.steps == [(0.1, 1e-6)]


@pytest.mark.parametrize("epsilon", [float("inf"), float("nan"), 0.0, -0.1, 1e300, 1e-300])
def test_an_epsilon_without_a_claim_is_refused(reader, epsilon):
    with pytest.raises(RequestInvalid):
        query_claim(reader(epsilon=epsilon), COUNT, unit="person")


def test_a_threshold_without_a_delta_is_refused(reader):
    with pytest.raises(RequestInvalid, match=r"privacy\.delta must be greater than 0"):
        query_claim(reader(delta=0.0), COUNT, unit="person")


class Pretends:
    def get_privacy_cost(self, _):
        return 0.0, 0.0


@every_case("value", [None, "reader", Pretends()])
def test_a_non_reader_is_refused(value):
    with pytest.raises(
        TypeError, match=r"reader must be a PrivateReader of SmartNoise, got .* Pass"
    ):
        query_claim(value, COUNT, unit="person")


def test_the_unit_has_no_default(reader):
    with pytest.raises(TypeError, match="unit"):
        query_claim(reader(), COUNT)


def test_a_ledger_grants_a_query_and_stores_the_result(reader, tmp_path):
    made = reader()
    with Accountant(f"sqlite:///{tmp_path}/ledger.db", analyst="ana") as ledger:
        ledger.as_owner("owner").open(
            "census", {"filter": "basic", "epsilon": "1", "delta": "1e-5"}, as_given=True
        )
        again = {"request_id": ledger.new_request_id(), "store": tmp_path / "answers.db"}
        claim = query_claim(made, GROUPS, unit="person")
        rows = [ledger.release("census", claim, lambda: made.execute(GROUPS)[1:], **again)]
        rows += [ledger.release("census", claim, lambda: made.execute(GROUPS)[1:], **again)]
        assert rows[0] == rows[1]
        assert len(rows[0]) == 2
        assert float(ledger.dataset("census").left["epsilon"]) == pytest.approx(0.6)
    assert len(made.odometer.steps) == 4
