"""What SmartNoise's noisy columns lose, computed from exact aggregates of neighbouring tables.

Nothing of SmartNoise's own accounting is used: the scale of the noise, the difference of the exact
aggregates, and the law of the noise.
"""

from __future__ import annotations

import inspect
import math
from typing import Any, Final

import pytest
from scipy.stats import norm

from accountant.claims import AllOf
from accountant.errors import RequestInvalid
from streams.engines.smartnoise import query_claim
from tests.every_case import every_case

pytestmark = pytest.mark.smartnoise

EPSILON: Final = 0.5
DELTA: Final = 1e-3
FROM: Final = "FROM db.people"
CLAIMED: Final = (
    f"SELECT COUNT(*) AS n {FROM}",
    f"SELECT COUNT(age) AS n {FROM}",
    f"SELECT COUNT(pid) AS n {FROM}",
    f"SELECT COUNT(DISTINCT pid) AS n {FROM}",
    f"SELECT COUNT(DISTINCT age) AS n {FROM}",
    f"SELECT SUM(age) AS s {FROM}",
    f"SELECT SUM(pay) AS s {FROM}",
    f"SELECT SUM(wide) AS s {FROM}",
    f"SELECT SUM(DISTINCT age) AS s {FROM}",
    f"SELECT AVG(age) AS a {FROM}",
    f"SELECT VARIANCE(pay) AS v {FROM}",
    f"SELECT VAR(age) AS v {FROM}",
    f"SELECT STDDEV(pay) AS v {FROM}",
    f"SELECT STD(age) AS v {FROM}",
    f"SELECT SUM(age) / COUNT(*) AS a {FROM} WHERE pay > -1000",
    f"SELECT sex, COUNT(*) AS n, SUM(pay) AS s {FROM} GROUP BY sex",
    f"SELECT sex, AVG(age) AS a {FROM} GROUP BY sex HAVING COUNT(*) > 3 ORDER BY a LIMIT 1",
    f"SELECT age, COUNT(*) AS n, SUM(pay) AS s {FROM} GROUP BY age",
    f"SELECT sex {FROM} GROUP BY sex",
)
BY_GAUSSIAN: Final = (CLAIMED[0], CLAIMED[6], CLAIMED[15])  # each scale takes long to find
REFUSED: Final = (
    (f"SELECT age, SUM(age) AS s {FROM} GROUP BY age", "must not sum .* groups by"),
    (f"SELECT AGE, SUM(age) AS s {FROM} GROUP BY AGE", "that SmartNoise accepts"),
    (f"SELECT age, VARIANCE(age) AS s {FROM} GROUP BY age", "must not sum .* groups by"),
    (f"SELECT SUM(pid) AS s {FROM}", "must not sum the unit"),
    (f"SELECT AVG(stated) AS s {FROM}", "metadata.stated.sensitivity must be left out"),
    (f"SELECT SUM(free) AS s {FROM}", "must be Laplace or Gaussian .* Unbounded"),
    (f"SELECT VARIANCE(free) AS s {FROM}", "that SmartNoise accepts"),
    *(
        (f"SELECT {asked} AS s {FROM}", "that SmartNoise accepts")
        for asked in (
            *("MIN(age)", "MAX(age)", "MEDIAN(age)", "QUANTILE(age, 0.5)"),
            *("SUM(age * age)", "SUM(age + 1)", "SUM(sex = 1)", "age", "AVG(SUM(age))"),
        )
    ),
)
_COLUMNS: Final[dict[str, dict[str, Any]]] = {
    "age": {"type": "int", "lower": 0, "upper": 100},
    "pay": {"type": "float", "lower": -50.0, "upper": 20.0},
    "wide": {"type": "int", "lower": -5000, "upper": 10},
    "stated": {"type": "int", "lower": 0, "upper": 100, "sensitivity": 0.001},
    "free": {"type": "int"},
    "sex": {"type": "int"},
}


def table(units: list[list[dict[str, Any]]]) -> Any:
    """Return the rows of units, with the unit of each."""
    import pandas as pd

    return pd.DataFrame([row | {"pid": pid} for pid, rows in enumerate(units) for row in rows])


def row(value: int, sex: int) -> dict[str, Any]:
    numbers = dict.fromkeys(("age", "wide", "stated", "free"), value)
    return numbers | {"pay": float(value), "sex": sex}


def reader(rows: Any, mechanisms: Any = None, **options: Any) -> Any:
    from snsql import Privacy, from_df

    unit = {"pid": {"type": "int", "private_id": not options.get("row_privacy")}}
    unit["pid"] |= {"lower": 0, "upper": 10}
    metadata = {"": {"db": {"people": {**options, **unit, **_COLUMNS}}}}
    privacy = Privacy(epsilon=EPSILON, delta=DELTA, mechanisms=mechanisms)
    with pytest.warns(UserWarning, match="override sensitivity"):
        return from_df(rows, privacy=privacy, metadata=metadata)


def neighbours(rows_of_a_unit: int) -> list[tuple[Any, Any]]:
    """Return tables without and with one unit, at and beyond the bounds, in one or more groups."""
    others = [[row(30 + i % 3, i % 2)] for i in range(40)]
    units = [
        [row(value, sex if spread else 1) for sex in range(rows_of_a_unit)]
        for value in (100, 1_000_000, -1_000_000)
        for spread in ({False, rows_of_a_unit > 1})
    ]
    far = [row(1_000_000, 7)]
    return [
        *((table(others), table([*others, unit])) for unit in units),
        (table([*others, *[far] * 40]), table([*others, *[far] * 41])),
    ]


def aggregates(made: Any, query: str) -> tuple[list[Any], dict[tuple[Any, ...], list[float]]]:
    """Return the noisy columns, and their exact values by group."""
    asked = made.parse_query_string(query)
    made._options.row_privacy = asked.row_privacy
    made._options.reservoir_sample = asked.sample_max_ids
    made._options.censor_dims = asked.censor_dims
    inner, _ = made._rewrite_ast(asked)
    columns = inner._select_symbols
    found = {}
    for values in made._get_reader(inner)._execute_ast(inner)[1:]:
        pairs = list(zip(columns, values, strict=True))
        group = tuple(value for column, value in pairs if column.mechanism is None)
        found[group] = [float(value or 0) for column, value in pairs if column.mechanism]
    return [column for column in columns if column.mechanism], found


def loss(mechanism: Any, differences: list[float], epsilon: float) -> tuple[float, float]:
    """Return the (epsilon, delta) of noise on a vector, with this epsilon where it is Gaussian."""
    if type(mechanism).__name__ == "Laplace":
        return sum(map(abs, differences)) / mechanism.scale, 0.0
    mu = math.hypot(*differences) / mechanism.scale
    if not mu:
        return 0.0, 0.0
    # Balle and Wang 2018 Thm 8.
    tails = norm.cdf(mu / 2 - epsilon / mu), norm.cdf(-mu / 2 - epsilon / mu)
    return epsilon, float(tails[0] - math.exp(epsilon) * tails[1])


def shown(keycount: Any, counts: list[float]) -> float:
    """Return the probability that a group is shown that only one of two tables has."""
    mechanism, missed = keycount.mechanism, 1.0
    for count in counts:
        above = (mechanism.threshold - count) / mechanism.scale
        missed *= 1 - (math.exp(-above) / 2 if above > 0 else 1 - math.exp(above) / 2)
    return 1 - missed


def parts(claim: Any) -> list[tuple[float, float]]:
    claims = claim.claims if isinstance(claim, AllOf) else [claim]
    return [(float(each.epsilon), float(getattr(each, "delta", "0"))) for each in claims]


def mechanisms(kind: str) -> Any:
    """Return SmartNoise's choice of mechanisms, with one kind for all counts and sums."""
    from snsql.sql._mechanisms import Mechanism
    from snsql.sql.privacy import Mechanisms, Stat

    made = Mechanisms()
    for stat in Stat:
        if stat is not Stat.threshold:
            made.map[stat] = Mechanism[kind]
    return made


@pytest.mark.parametrize("kind", ["discrete_laplace", "gaussian"])
@pytest.mark.parametrize("options", [{}, {"max_ids": 3}, {"row_privacy": True}], ids=str)
def test_a_claim_covers_the_loss_on_neighbouring_tables(kind: str, options: dict[str, Any]) -> None:
    chosen = mechanisms(kind)
    queries, number = (BY_GAUSSIAN, 2) if kind == "gaussian" else (CLAIMED, 9)
    pairs = [
        [reader(rows, chosen, **options) for rows in pair]
        for pair in neighbours(options.get("max_ids", 1))[-number:]
    ]
    for query in queries:
        if "pid" in query and options.get("row_privacy"):
            continue
        claim = parts(query_claim(pairs[0][0], query, unit="person").claim)
        for without, with_unit in pairs:
            columns, before = aggregates(without, query)
            _, after = aggregates(with_unit, query)
            assert len(columns) == len(claim)
            common, new = before.keys() & after.keys(), after.keys() - before.keys()
            for i, (column, (epsilon, delta)) in enumerate(zip(columns, claim, strict=True)):
                differences = [after[group][i] - before[group][i] for group in common]
                spent, missed = loss(column.mechanism, differences, epsilon)
                if column.is_key_count:  # it alone hides a group that only one table has
                    missed += shown(column, [after[group][i] for group in new])
                assert spent <= epsilon, (query, column.name, spent)
                assert missed <= delta, (query, column.name, missed)


@every_case(("query", "said"), REFUSED)
def test_a_query_that_loses_more_than_smartnoise_counts_is_refused(query: str, said: str) -> None:
    with pytest.raises(RequestInvalid, match=said):
        query_claim(reader(table([[row(30, 1)]])), query, unit="person")


def test_every_mechanism_and_statistic_of_the_installed_version_is_in_the_tables() -> None:
    from snsql._ast import tokens
    from snsql.sql import _mechanisms
    from snsql.sql._mechanisms import Mechanism
    from snsql.sql.privacy import Stat

    assert {each.name for each in Mechanism} == {
        *("laplace", "geometric", "gaussian", "discrete_laplace")
    }
    assert {each.name for each in Stat} == {
        *("count", "sum_int", "sum_large_int", "sum_float", "sum_large_float", "threshold")
    }
    made = {name for name, value in vars(_mechanisms).items() if inspect.isclass(value)}
    assert made == {"Laplace", "Gaussian", "Mechanism", "Unbounded"}
    assert tokens


def test_a_threshold_of_gaussian_noise_is_refused() -> None:
    from snsql.sql._mechanisms import Mechanism
    from snsql.sql.privacy import Stat

    chosen = mechanisms("laplace")
    chosen.map[Stat.threshold] = Mechanism.gaussian
    made = reader(table([[row(30, 1)]]), chosen)
    with pytest.raises(RequestInvalid, match=r"Laplace for Stat\.threshold.*got Gaussian"):
        query_claim(made, CLAIMED[0], unit="person")


@pytest.mark.parametrize("place", ["privacy", "mechanisms", "class"])
def test_mechanisms_of_somebody_else_are_refused(place: str) -> None:
    from snsql import Privacy
    from snsql.sql._mechanisms import Laplace, Mechanism
    from snsql.sql.privacy import Mechanisms

    class Silent(Laplace):
        """Adds no noise."""

    class OwnPrivacy(Privacy):
        """Has another mechanism for each column."""

    class OwnMechanisms(Mechanisms):
        """Chooses others."""

    made = reader(table([[row(30, 1)]]))
    if place == "privacy":
        made.privacy = OwnPrivacy(epsilon=EPSILON, delta=DELTA)
    elif place == "mechanisms":
        made.privacy.mechanisms = OwnMechanisms()
    else:
        made.privacy.mechanisms.classes[Mechanism.discrete_laplace] = Silent
    with pytest.raises(RequestInvalid, match="privacy"):
        query_claim(made, CLAIMED[0], unit="person")
