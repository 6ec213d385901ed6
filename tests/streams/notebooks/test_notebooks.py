"""Datasets and usage as pandas and Arrow tables, and displays of a client."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pyarrow as pa
import pytest

from accountant.questions import Schema
from accountant.views.datasets import DatasetView
from accountant.views.usage import UsageView
from streams.client import Accountant
from streams.notebooks import client_html, reply_html, rows_of, to_arrow, to_pandas
from streams.replies.reply import Reply
from tests.accountant.world import opened as opened_world
from tests.streams.clock import TestClock
from tests.streams.gateway.asking import SCHEMA

OPENS = ()
STARTS = ()

LEFT = f"0.{'9' * 40}"
"""A budget less one step of the grid: every float of it is 1."""


@pytest.fixture
def ledger(file: Path, clock: TestClock) -> Iterator[Accountant]:
    with Accountant(f"sqlite:///{file}", clock=clock, analyst="ana") as ledger:
        ledger.as_owner("owner").open("census", {"filter": "basic", "epsilon": "1"}, as_given=True)
        ledger.as_owner("owner").open(
            "adult", {"epsilon": "1", "delta": "1e-6", "horizon": "P30D"}, as_given=True
        )
        ledger.ask("census", "laplace:scale=1e9,sensitivity=0.001")
        ledger.ask("census", "pure:5")
        yield ledger


def test_datasets_are_a_frame_of_pandas_with_exact_amounts(ledger: Accountant) -> None:
    views = ledger.datasets()
    frame = to_pandas(views).set_index("dataset")
    assert list(frame.index) == ["adult", "census"]
    assert frame.loc["census", "filter"] == "basic"
    left = frame.loc["census", "left_epsilon"]
    assert type(left) is Decimal
    assert left == Decimal("0.999999999999")
    assert pd.isna(frame.loc["adult", "left_epsilon"])  # it is counted in rho
    assert frame.loc["adult", "left_rho"] > 0
    assert frame.loc["census", "opened_at"] == datetime(2026, 11, 21, 12, tzinfo=UTC)
    assert pd.isna(frame.loc["census", "horizon_ends_at"])
    assert frame.loc["census", "outcomes_refused"] == 1
    assert frame.loc["adult", "outcomes_refused"] == 0


def test_datasets_are_a_table_of_arrow_with_the_logs_text(ledger: Accountant) -> None:
    views = ledger.datasets()
    table = to_arrow(views)
    assert table.column("left_epsilon").to_pylist() == [None, views[1].left["epsilon"]]
    assert table.schema.field("left_epsilon").type == pa.string()
    assert pa.types.is_timestamp(table.schema.field("opened_at").type)
    assert table.column("exhausted").to_pylist() == [False, False]


def test_usage_is_a_frame_and_a_table(ledger: Accountant) -> None:
    usage = ledger.usage("census")
    frame = to_pandas(usage)
    assert list(frame["analyst"]) == ["ana"]
    assert list(frame["spent"]) == [Decimal("1e-12")]
    assert (frame["granted"].sum(), frame["refused"].sum()) == (1, 1)
    assert to_arrow(usage).column("spent").to_pylist() == ["0.000000000001"]


def test_amounts_lose_no_digit(ledger: Accountant) -> None:
    tiny = msgspec.structs.replace(ledger.usage("census")[0], spent=LEFT)
    (spent,) = to_pandas([tiny])["spent"]
    assert str(spent) == LEFT
    assert to_arrow([tiny]).column("spent").to_pylist() == [LEFT]


@pytest.mark.parametrize("of", [[], ()])
def test_no_rows_are_an_empty_frame(of: list[DatasetView | UsageView]) -> None:
    assert len(to_pandas(of)) == 0
    assert to_arrow(of).num_rows == 0
    assert rows_of(of, Decimal) == []


@pytest.mark.parametrize(("name", "module"), [("to_pandas", "pandas"), ("to_arrow", "pyarrow")])
def test_without_the_library_the_error_says_what_to_install(
    name: str, module: str, tmp_path: Path
) -> None:
    # A process that has the client but not the library: imports of it find nothing.
    (tmp_path / "without.py").write_text(
        "import sys\n"
        f"sys.modules[{module!r}] = None\n"
        f"from streams.notebooks import {name}\n"
        f"{name}([])\n"
    )
    done = subprocess.run(
        [sys.executable, tmp_path / "without.py"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
    )
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith(
        f"ImportError: {name} needs {module}, which is not installed. "
        f"Run `python -m pip install {module}`"
    )


def test_a_client_and_its_replies_are_shown_as_tables(ledger: Accountant) -> None:
    html = client_html("sqlite:///<a>.db", ledger.datasets())
    assert "sqlite:///&lt;a&gt;.db: 2 datasets" in html
    assert "ε = 1, δ = 0, for each person" in html
    reply = ledger.ask("census", "pure:5")
    shown = reply_html(reply)
    assert '<tr><th scope="row">granted</th><td>no</td></tr>' in shown
    assert "<td>exhausted</td>" in shown
    assert reply.fits is not None
    assert f"<td>{reply.fits}</td>" in shown


def test_the_first_of_many_datasets_are_shown(ledger: Accountant) -> None:
    html = client_html("x", ledger.datasets() * 40)
    assert "x: 80 datasets, 50 shown" in html
    assert html.count("<tr>") == 51


def test_a_preview_and_a_budget_are_shown_as_tables(ledger: Accountant) -> None:
    preview: Any = ledger.cost("census", "pure:0.5", analyst="ana")
    shown = preview._repr_html_()
    assert '<tr><th scope="row">would be granted</th><td>yes</td></tr>' in shown
    assert "<td>ε 0.5</td>" in shown
    refused: Any = ledger.cost("census", "pure:5", analyst="ana")
    assert "the request costs ε 5" in refused._repr_html_()
    budget: Any = ledger.budget("census", "ana")
    assert '<tr><th scope="row">may still use</th><td>' in budget._repr_html_()
    assert "of the budget (ε " in budget._repr_html_()


def test_columns_are_text_and_a_table(ledger: Accountant) -> None:
    schema = msgspec.convert(SCHEMA, Schema)
    policy = {"filter": "basic", "epsilon": "1"}
    ledger.as_owner("owner").open("survey", policy, as_given=True, schema=schema)
    found: Any = ledger.columns("survey")
    assert [each.column.name for each in found] == ["age", "region"]
    head, age, region, note = str(found).splitlines()
    assert head.split()[:3] == ["column", "type", "values"]
    assert "0 to 120" in age
    assert "histogram(region); top(region, 2)" in region
    assert note == "each row counts as one unit"
    assert "<td>histogram(region); top(region, 2)" in found._repr_html_()
    price: Any = ledger.cost("survey", ledger.question("survey", "mean(age)", epsilon=0.1))
    assert "give a guess" in price._repr_html_()
    assert "The same question at five prices" in price._repr_html_()


def test_the_reply_that_ends_a_filter_says_so() -> None:
    decision = opened_world(epsilon="1", delta="1e-6", beside="basic").ask("pure:0.5")
    assert decision.ends == "zcdp_tight"
    reply = Reply(decision, "01a1aaaa-aaaa-7aaa-8aaa-aaaaaaaaaaaa")
    ends = "the ρ budget of zcdp_tight for good; only simple addition (ε 0.5 left) remains"
    assert f"ends='{ends}'" in repr(reply)
    assert ends in reply._repr_html_()
    assert ends in decision._repr_html_()  # type: ignore[attr-defined]
