"""verify.py computes again what claims cost, what is left, and whether a grant fits."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any

import pytest

from accountant.partition import hash_of
from streams.evidence import verify
from tests.accountant.world import World, code, opened
from tests.golden.replayed_logs import played

Row = dict[str, Any]
POLICIES = {
    "basic": {"filter": "basic", "epsilon": "1"},
    "zcdp": {"filter": "zcdp", "rho": "0.1"},
    "zcdp_tight": {"epsilon": "1", "delta": "1e-6"},
    "beside": {"epsilon": "1", "delta": "1e-6", "beside": "basic"},
}
RESIDUE = {"residue": {"filter": "gdp_residue", "epsilon": "1", "delta": "1e-6"}}
CLAIMS = (
    "pure:0.05",
    {"type": "laplace", "scale": "90", "sensitivity": "1"},
    {"type": "bounded_range", "eta": "0.05"},
    {"type": "repeat", "times": 3, "claim": {"type": "pure", "epsilon": "0.01"}},
    {"type": "zcdp", "rho": "0.0005"},
    {"type": "gaussian", "sigma": "50", "sensitivity": "1"},
    {"type": "brownian", "variance": "3000", "sensitivity": "1"},
)


@lru_cache
def world(policy: str) -> World:
    """Return a dataset on which every claim was asked for that the policy may grant."""
    made = opened(**POLICIES[policy])
    for claim in CLAIMS:
        made.ask(claim)
    made.send("admin", made.admin("record", claim={"type": "pure", "epsilon": "0.1"}, **_OUTSIDE))
    return made


_OUTSIDE = {"released_at": "2026-01-01T00:00:00.000Z", "evidence": "table 3"}


def taken(log: list[bytes]) -> verify.Log:
    found = verify.Log()
    for value in log:
        found.take(value)
    return found


def charged(policy: str) -> list[int]:
    """Return the places of the decisions that charge a claim."""
    return [n for n, each in enumerate(world(policy).decisions) if each.cost]


def lower(record: Row, name: str) -> None:
    """Charge a fifth of a cost, and have everything else in the record fit it."""
    less = Decimal(record["cost"][name]) * 4 / 5
    record["cost"][name] = f"{Decimal(record['cost'][name]) - less:f}"
    record["totals"][name] = f"{Decimal(record['totals'][name]) - less:f}"
    record.get("rounded_up", {}).pop(name, None)
    if name in record["left"]:
        record["left"][name] = f"{Decimal(record['left'][name]) + less:f}"


@pytest.mark.parametrize("policy", POLICIES)
def test_every_cost_is_computed_again(policy: str) -> None:
    asked = world(policy)
    granted = [code(each) for each in asked.decisions].count("granted")
    assert granted >= (4 if policy == "basic" else 7)
    assert code(asked.decisions[-1]) == "recorded"
    assert not +taken(asked.log).needs


@pytest.mark.parametrize("policy", POLICIES)
def test_a_smaller_charge_is_found_in_every_sum(policy: str) -> None:
    found = 0
    for place in charged(policy):
        log = taken(world(policy).log[:place])
        record = json.loads(world(policy).log[place])
        for name in [name for name, cost in record["cost"].items() if cost not in ("0", "1")]:
            forged = copy.deepcopy(record)
            lower(forged, name)
            with pytest.raises(verify.Wrong, match=f"^census costs .* of {name}, charged was"):
                copy.deepcopy(log).decision(forged, "")
            found += 1
    assert found >= len(charged(policy))


@pytest.mark.parametrize("policy", POLICIES)
def test_a_smaller_claim_than_was_charged_is_found(policy: str) -> None:
    place = charged(policy)[-1]
    log, record = taken(world(policy).log[:place]), json.loads(world(policy).log[place])
    record["request"]["claim"]["epsilon"] = "0.001"
    with pytest.raises(verify.Wrong, match=r"^census costs"):
        log.decision(record, "")


def test_a_claim_without_an_epsilon_is_counted() -> None:
    values = world("beside").log
    place = next(n for n in charged("beside") if b'"gaussian"' in values[n])
    log, record, before = taken(values[:place]), *map(json.loads, values[place : place - 2 : -1])
    record["totals"]["without_epsilon"] = before["totals"]["without_epsilon"]
    record["cost"]["without_epsilon"] = "0"
    with pytest.raises(verify.Wrong, match="of without_epsilon, charged was"):
        log.decision(record, "")


def _step(world: World, kind: str, grant: str) -> str:
    made = world.admin(kind, grant=grant, analyst="ana")
    body = {name: each for name, each in json.loads(made).items() if name != "by"}
    return code(world.send("requests", json.dumps(body).encode()))


def test_what_basic_composition_alone_admits_ends_the_filter_for_ever() -> None:
    world = opened(**POLICIES["beside"])
    world.ask("pure:0.05")
    world.ask("pure:0.3", reserve={"until": "PT1H"})
    assert world.decisions[-1].totals["filter_ended"] == "1"  # type: ignore[index]
    assert _step(world, "void", hash_of(world.log[-1])) == "voided"
    world.ask("pure:0.01")
    assert not +taken(world.log).needs


def _braked(policy: str, in_force: str) -> World:
    """Return a dataset with a budget in force, and one grant under it."""
    made = opened(**(POLICIES | RESIDUE)[policy])
    name = "rho" if policy == "zcdp" else "epsilon"
    made.send("admin", made.admin("budget", budget={name: in_force}))
    made.ask("pure:0.05")
    assert [code(each) for each in made.decisions[-2:]] == ["budget_set", "granted"]
    return made


def _lowered() -> World:
    made = opened(filter="basic", epsilon="1")
    made.amend(policy={"filter": "basic", "epsilon": "0.5"})
    assert code(made.decisions[-1]) == "amended"
    return made


def _forge(made: World, change: Callable[[Row], None], back: int = 1) -> None:
    """Verify a log up to a record that somebody changed."""
    place = len(made.log) - back
    record = json.loads(made.log[place])
    taken(made.log[:place]).decision(copy.deepcopy(record), "")
    change(record)
    taken(made.log[:place]).decision(record, "")


def _beyond(record: Row) -> None:
    """Grant a claim beyond the budget, with costs and totals that fit it."""
    record["request"]["claim"]["rho"] = record["cost"]["rho"] = "0.2"
    record["totals"]["rho"], record["left"]["rho"] = "0.2", "0"


def _beyond_the_brake(record: Row) -> None:
    record["request"]["claim"]["epsilon"] = record["cost"]["epsilon"] = "0.6"
    record["totals"]["epsilon"], record["left"]["epsilon"] = "0.6", "0"


def _ended(record: Row) -> None:
    """Let basic composition alone pay for a claim that the filter admits."""
    record["cost"] |= {"rho": "0", "filter_ended": "1"}
    record["totals"] |= {"rho": "0", "filter_ended": "1"}
    record["left"]["rho"] = "0"


def _raised(record: Row) -> None:
    record["request"]["policy"]["epsilon"] = record["policy"]["epsilon"] = "2"
    record["budget"]["epsilon"] = record["left"]["epsilon"] = "2"


def _rest(name: str, amount: str) -> Callable[[Row], None]:
    return lambda record: record["left"].update({name: amount})


def _in_force(name: str, amount: str) -> Callable[[Row], None]:
    return lambda record: record["in_force"]["budget"].update({name: amount})


def _request_in(policy: str, claim: Any) -> World:
    made = opened(**POLICIES[policy])
    assert code(made.ask(claim)) == "granted"
    return made


ZCDP = {"type": "zcdp", "rho": "0.05"}
FORGED = {
    "left of the filter": (
        _request_in,
        ("beside", "pure:0.05"),
        _rest("rho", "0.02"),
        1,
        "rho left",
    ),
    "left of epsilon": (
        _request_in,
        ("beside", "pure:0.05"),
        _rest("epsilon", "1"),
        1,
        "epsilon left",
    ),
    "left that is no sum": (_request_in, ("zcdp", ZCDP), _rest("epsilon", "9"), 1, "names of left"),
    "left under a brake": (_braked, ("beside", "0.5"), _rest("epsilon", "0.95"), 1, "epsilon left"),
    "a brake": (_braked, ("beside", "0.5"), _in_force("rho", "0.02"), 2, "a budget of rho"),
    "a brake of epsilon": (_braked, ("beside", "0.5"), _in_force("epsilon", "0.6"), 2, "budget of"),
    "a brake above": (
        _braked,
        ("residue", "0.5"),
        _in_force("mu_squared", "9"),
        2,
        "in_force.budg",
    ),
    "a brake of a name": (
        _braked,
        ("residue", "0.5"),
        _in_force("rho", "0"),
        2,
        "names of in_force",
    ),
    "beyond the budget": (
        _request_in,
        ("zcdp", ZCDP),
        _beyond,
        1,
        "a charge does not fit the budget: rho",
    ),
    "beyond the brake": (_braked, ("basic", "0.5"), _beyond_the_brake, 1, "a charge does not fit"),
    "an ended filter": (_request_in, ("beside", "pure:0.05"), _ended, 1, "a grant ends the filter"),
    "a raised budget": (_lowered, (), _raised, 1, "the budget of epsilon of census rises"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_false_budget_or_rest_is_found(name: str) -> None:
    make, arguments, change, back, why = FORGED[name]
    with pytest.raises(verify.Wrong, match=f"^{re.escape(why)}"):
        _forge(make(*arguments), change, back)


def test_what_became_of_a_guarantee_stays() -> None:
    values = played("reservations").log
    log, count = verify.Log(), 0
    for value in values:
        record = json.loads(value)
        if "guarantee" in record:
            del record["guarantee"]
            with pytest.raises(verify.Wrong, match=r"^guarantee"):
                copy.deepcopy(log).decision(record, "")
            count += 1
        log.take(value)
    assert count


def test_what_other_filters_leave_needs_the_product() -> None:
    needs = taken(_braked("residue", "0.5").log).needs
    assert needs["whether gdp_residue admits the totals, and what is left"]
    assert needs["budget of gdp_residue"] == 2
