"""One dataset: what was promised, what is spent, what may have leaked, who asked."""

from __future__ import annotations

from typing import Final

from deploy.grafana.dashboards import levels
from deploy.grafana.dashboards.board import Board, override
from deploy.grafana.dashboards.dataset_requests import analysts, pace, requests
from deploy.grafana.dashboards.panels import (
    lines,
    number,
    query,
    words,
    words_to_read,
)
from deploy.grafana.dashboards.shared import DASHED, EXHAUSTION, ONE, color
from deploy.grafana.dashboards.teams import teams_of_one

_SPENT: Final = f"max(privacy_filter_spent_ratio{{{ONE}}})"
_BUDGET: Final = f"max by (unit) (privacy_filter_budget{{{ONE}}})"
_LEFT: Final = f"min by (unit) (privacy_filter_left{{{ONE}}})"
_IN_UNIT: Final = f'{ONE},unit="$unit"'

_ODOMETER: Final = """
An **odometer** bounds what has leaked *at every moment at once*; the **guarantee** only promises
for the end. Holding always costs more than holding once, so

- an odometer may stand **above** the guarantee of a healthy dataset. That is no alert;
- an odometer below the guarantee does **not** say how much more may be granted;
- guarantee minus odometer means **nothing**. What still fits is *left*, in each unit.

Compare an odometer with itself over time, and odometers with each other: the smallest at this
moment may be quoted only if it was chosen beforehand, or if their failure probabilities are added.
A policy in rho has no line for epsilon here.
"""


def dataset() -> Board:
    """Return the dashboard of one dataset."""
    board = Board(
        "dataset",
        "Privacy budget: one dataset",
        "One dataset: its promise, its budget, its odometers, its pace, and who asks.",
        since="now-24h",
        runbooks=levels.RUNBOOKS,
    )
    board.choose("dataset", "label_values(privacy_filter_spent_ratio, dataset)", label="Dataset")
    board.choose(
        "unit",
        'label_values(privacy_filter_budget{dataset="$dataset",unit!="delta"}, unit)',
        label="Unit",
    )
    board.alerts(f'alertname=~"Privacy.+",{ONE}')
    _now(board)
    _budget(board)
    teams_of_one(board)
    _leakage(board)
    pace(board)
    requests(board)
    analysts(board)
    return board


def _now(board: Board) -> None:
    board.row("$dataset, now", panel_id=1)
    board.add(
        number(
            "State",
            "Exhausted: the budget is reached, or a request was refused within 5 % of it, or the "
            "policy halts at the first refusal; unless it does, smaller ones may still fit. "
            "Closed: the owner ended it, nothing is granted.",
            [
                query(
                    f"clamp_max(max(privacy_filter_exhausted{{{ONE}}}) + "
                    f"2 * max(privacy_dataset_closed{{{ONE}}}), 2)"
                )
            ],
            mappings=words(_0=("open", "green"), _1=("exhausted", "red"), _2=("closed", "text")),
            nothing="no owner",
            background=True,
        ),
        panel_id=2,
        width=4,
        height=4,
    )
    board.add(
        number(
            "Spent",
            "Part of the additive budget that is spent: the filter's first unit. No part of "
            "epsilon, and not the part of delta.",
            [query(_SPENT)],
            unit="percentunit",
            levels=levels.SPENT,
            decimals=1,
            line=True,
        ),
        panel_id=3,
        width=4,
        height=4,
    )
    board.add(
        number(
            "Promised",
            "The policy's guarantee, fixed at the opening: everything that is ever released, "
            "together, stays within it. It does not change when requests are granted.",
            [query(f"max by (parameter) (privacy_guarantee{{{ONE}}})", "{{parameter}}")],
            overrides=[override("delta", unit="sci")],
        ),
        panel_id=4,
        width=6,
        height=4,
    )
    board.add(
        number(
            "Left",
            "What each of the filter's sums may still grow by: a request fits if its cost in "
            "every unit is left. No epsilon, unless the unit says so.",
            [query(_LEFT, "{{unit}}")],
        ),
        panel_id=5,
        width=6,
        height=4,
    )
    board.add(
        number(
            "Exhausted in",
            "When the additive budget ends if the pace of the last six hours goes on. A guess "
            "from the past, no promise: it jumps when somebody asks for much. Over: the dataset "
            "is exhausted.",
            [
                query(
                    f"{EXHAUSTION} or clamp_max(max(privacy_filter_exhausted{{{ONE}}}) == 1, 0)",
                    instant=True,
                )
            ],
            mappings=words(_0=("over", "red")),
            unit="dtdurations",
            levels=levels.EXHAUSTION_SECONDS,
            nothing="not in sight",
            decimals=0,
        ),
        panel_id=6,
        width=4,
        height=4,
    )


def _budget(board: Board) -> None:
    board.row("Budget", panel_id=10)
    board.add(
        lines(
            "Spent of each budget",
            "Part of each of the filter's sums that is used up. The first to reach 100 % ends "
            "the granting; that may be delta. The dashed lines are where alerts fire, which go "
            "by the additive unit alone. A unit with a budget of nothing is not shown.",
            [query(f"1 - {_LEFT} / ({_BUDGET} > 0)", "{{unit}}")],
            unit="percentunit",
            levels=levels.SPENT,
            bounds=(0, 1),
            calcs=("lastNotNull",),
            stepped=True,
        ),
        panel_id=11,
        width=12,
        height=9,
    )
    board.add(
        lines(
            "Spent against the budget, in $unit",
            "What was spent, exact but for rounding to doubles, and what it may reach. The "
            "filter refuses whatever would pass the budget, so the line of what is spent never "
            "crosses it. The budget was computed once, at the opening.",
            [
                query(
                    f"max(privacy_filter_budget{{{_IN_UNIT}}}) - "
                    f"min(privacy_filter_left{{{_IN_UNIT}}})",
                    "spent",
                    ref="A",
                ),
                query(f"max(privacy_filter_budget{{{_IN_UNIT}}})", "budget", ref="B"),
            ],
            axis="$unit",
            calcs=("lastNotNull",),
            overrides=[
                override("budget", color=color("red"), custom__lineStyle=DASHED),
                override("spent", color=color("blue"), custom__fillOpacity=15),
            ],
            stepped=True,
        ),
        panel_id=12,
        width=12,
        height=9,
    )


def _leakage(board: Board) -> None:
    board.row("What may have leaked", panel_id=20)
    board.add(
        lines(
            "Odometers beside the guarantee",
            "Upper bounds on what has leaked so far, in nats of epsilon, each valid at every "
            "moment at once with a small probability of failing of its own. They may stand above "
            "the guarantee of a healthy dataset: see beside. An infinite reading is not drawn.",
            [
                query(
                    f"max by (odometer) (privacy_odometer_epsilon{{{ONE}}})",
                    "{{odometer}}",
                    ref="A",
                ),
                query(
                    f'max(privacy_guarantee{{{ONE},parameter="epsilon"}})',
                    "guarantee",
                    ref="B",
                ),
            ],
            axis="epsilon (nats)",
            calcs=("lastNotNull",),
            overrides=[override("guarantee", color=color("text"), custom__lineStyle=DASHED)],
            stepped=True,
        ),
        panel_id=21,
        width=14,
        height=10,
    )
    board.add(words_to_read("How to read an odometer", _ODOMETER), panel_id=22, width=10, height=10)
