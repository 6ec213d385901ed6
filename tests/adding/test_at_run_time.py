"""A filter without a parameter needs only its class and its name."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import pytest
import typer

from accountant import claims as c
from accountant import filters
from accountant.amounts import UNIT, Units, units_down
from accountant.errors import RequestInvalid
from accountant.filters import FILTERS, Budget
from accountant.filters.additive import AdditiveFilter
from accountant.filters.base import require_positive
from accountant.policy import Policy, filter_of, guarantee_of
from accountant.policy.compiled_policy import open_plan, stored_plan
from accountant.records.outcomes import Outcome, Reason
from accountant.times import uuid7
from streams.cli.root import app
from streams.client import Accountant
from tests.accountant.filters.policies import plan_of, sample
from tests.streams.clock import TestClock
from tests.streams.metrics.test_filters import check_exported

POLICY = {"filter": "halved", "epsilon": "1", "delta": "1e-6"}


class Halved(AdditiveFilter):
    """Admit while sum epsilon <= epsilon_g / 2 and sum delta <= delta_g."""

    name = "halved"
    sums = ("epsilon", "delta")

    def default_for_claims(self, delta: Decimal, *, budget_field: str) -> Decimal:
        return delta

    def capacity(self, budget: Budget) -> tuple[Units, ...]:
        epsilon = require_positive(budget.epsilon, "epsilon") / 2
        return units_down(epsilon), units_down(budget.delta_for_claims)


@pytest.fixture(autouse=True)
def halved() -> Iterator[None]:
    """Add the filter as its line in `filters` would, and take it out again."""
    filters._BY_NAME["halved"] = Halved
    yield
    del filters._BY_NAME["halved"]
    open_plan.cache_clear()
    stored_plan.cache_clear()


@pytest.fixture
def clock() -> TestClock:
    return TestClock()


Command = Callable[..., list[dict[str, object]]]


@pytest.fixture
def accountant(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command in this process, where the filter is, and return what it prints as JSON."""

    def run(name: str, *arguments: str) -> list[dict[str, object]]:
        command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
        assert not command.main([*arguments, "--json"], standalone_mode=False)
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


def test_a_policy_may_name_the_added_filter() -> None:
    plan = plan_of(Policy(**POLICY))
    assert plan.capacity == (UNIT // 2, UNIT // 10**6)
    assert guarantee_of(plan.policy) == ("epsilon", Decimal(1), Decimal("1e-6"))
    with pytest.raises(RequestInvalid, match="optimal_homogeneous, halved"):
        filter_of(Policy(filter="magic", epsilon="1"))


def test_a_ledger_opens_grants_refuses_and_replays_under_the_added_filter(
    tmp_path: Path, clock: TestClock
) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with Accountant(url, clock=clock) as ledger:
        assert (
            ledger.as_owner("owner").open("census", Policy(**POLICY), as_given=True).outcome
            is Outcome.OPENED
        )
        granted = [ledger.ask("census", c.Pure("0.2"), analyst="ana") for _ in range(3)]
        assert [each.reason for each in granted] == [None, None, Reason.EXHAUSTED]
        assert granted[-1].fits == "pure:0.1"
    with Accountant(url, clock=clock) as ledger:
        view = ledger.dataset("census")
        assert view is not None
        assert (view.totals["epsilon"], view.budget["epsilon"]) == ("0.4", "0.5")


def test_fits_counts_under_the_added_filter(accountant: Command) -> None:
    asked = ("--epsilon", "1", "--delta", "1e-6", "--claim", "pure:0.1", "--filter")
    (alone,) = accountant("fits", *asked, "halved")
    assert (alone["fits"], alone["filter"]) == (5, "halved")
    beside = accountant("fits", *asked, "all")
    assert [row["filter"] for row in beside] == [*FILTERS]
    assert beside[-1] == alone


def test_compare_tries_the_added_filter_in_place_of_another(
    accountant: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps(POLICY | {"filter": "basic"}))
    body = {"version": 1, "type": "request", "analyst": "ana", "dataset": "census"}
    body |= {"claim": {"type": "pure", "epsilon": "0.1"}}
    body |= {"unit": "person", "neighbours": "add_remove"}
    ids = [uuid7(1_795_000_000_000 + i, i.to_bytes(10, "big")) for i in range(20)]
    lines = "\n".join(json.dumps(body | {"request_id": each}) for each in ids)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    output = accountant("compare", "--policy", str(policy))
    rows = {row["name"]: row for row in output if row["kind"] == "filter"}
    assert (rows["basic"]["admitted"], rows["basic"]["own"]) == (10, True)
    halved = rows["halved"]
    assert (halved["admitted"], halved["refused"], halved["own"]) == (5, 15, False)


def test_metrics_show_its_budgets(clock: TestClock) -> None:
    check_exported(sample(Halved), clock)
