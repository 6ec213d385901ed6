"""One dataset: its guarantee, its spending, its odometers and its requests."""

from __future__ import annotations

from typing import Final

from deploy.grafana.dashboards import levels
from deploy.grafana.dashboards.board import Board, override
from deploy.grafana.dashboards.dataset_requests import analysts, pace, requests
from deploy.grafana.dashboards.dataset_reservations import reservations
from deploy.grafana.dashboards.panels import (
    lines,
    number,
    query,
    words,
    words_to_read,
)
from deploy.grafana.dashboards.shared import DASHED, EXHAUSTION, ONE, STATES, color, state
from deploy.grafana.dashboards.teams import teams_of_one

_SPENT: Final = f"max(privacy_filter_spent_ratio{{{ONE}}})"
_BUDGET: Final = f"max by (unit) (privacy_filter_budget{{{ONE}}})"
_LEFT: Final = f"min by (unit) (privacy_filter_left{{{ONE}}})"
_IN_EPSILON: Final = f'{ONE},parameter="epsilon"'
_IN_UNIT: Final = f'{ONE},unit="$unit"'

_ODOMETER: Final = """
An **odometer** bounds the privacy loss *at all moments together*; the **guarantee** is valid for
the end only. A bound for all moments is larger than a bound for one, so

- an odometer may be **above** the guarantee of a healthy dataset. That is no fault;
- an odometer below the guarantee does **not** show how much more can be granted;
- guarantee minus odometer means **nothing**. *Left* shows what still fits, in each unit.

Compare an odometer with itself over time, and odometers with each other. You may quote the
smallest one at this moment only if you chose it beforehand, or if you add their failure
probabilities. A policy in rho has no line for epsilon on this graph.
"""


def dataset() -> Board:
    """Return the dashboard of one dataset."""
    board = Board(
        "dataset",
        "Privacy budget: one dataset",
        "One dataset: its guarantee, its budget, its odometers, its burn rate and its requests.",
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
    reservations(board)
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
            "Exhausted: the budget is used up, or a request was refused within 5 % of it, or the "
            "policy has halted at its first refusal. Unless it has halted, smaller requests may "
            "still fit. Paused: nothing is granted until somebody resumes it. Suspended: a "
            "reservation went beyond its maximum, and no guarantee holds until an owner has "
            "resolved it. Closed: the owner has closed it, and nothing more is granted.",
            [query(state(ONE))],
            mappings=STATES,
            nothing="no owner",
            background=True,
        ),
        panel_id=2,
        width=4,
        height=4,
    )
    board.add(
        number(
            "Spent and reserved",
            "Part of the additive budget that is spent, or held by open reservations: the filter's "
            "first unit. This is not a part of epsilon, and not the part of delta.",
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
            "Guarantee",
            "The policy's guarantee, fixed at the opening: all releases together stay within it. "
            "It does not change when requests are granted. None: a claim was false, so that "
            "nothing is guaranteed.",
            [query(f"max by (parameter) ({_guarantee(ONE)})", "{{parameter}}")],
            overrides=[override("delta", unit="sci")],
        ),
        panel_id=4,
        width=6,
        height=4,
    )
    board.add(
        number(
            "Left",
            "The remaining amount of each of the filter's sums: a request fits if its cost in "
            "every unit remains. This is epsilon only if the unit is epsilon.",
            [query(_LEFT, "{{unit}}")],
        ),
        panel_id=5,
        width=6,
        height=4,
    )
    board.add(
        number(
            "Exhausted in",
            "When the additive budget ends at the rate of the last six hours. This is an estimate "
            "from the past: it jumps after a large request. Over: the dataset is exhausted.",
            [
                query(
                    f"{EXHAUSTION} or clamp_max(max(privacy_filter_exhausted{{{ONE}}}) == 1, 0)",
                    instant=True,
                )
            ],
            mappings=words(_0=("over", "red")),
            unit="dtdurations",
            levels=levels.EXHAUSTION_SECONDS,
            nothing="not foreseeable",
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
            "Spent and reserved of each budget",
            "Part of each of the filter's sums that is spent or reserved. Grants end when the "
            "first one reaches 100 %; that may be delta. The dashed lines are the alerts' "
            "thresholds, which apply to the additive unit only. A unit with a budget of 0 is not "
            "shown.",
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
            "Spent and reserved against the budget, in $unit",
            "What is spent, exact except for rounding to doubles, above it what open reservations "
            "hold, and the limit of both. The filter refuses every request that would exceed the "
            "budget, so they never cross it. What is spent only rises. The budget was computed "
            "once, at the opening.",
            [
                query(
                    f"clamp_min(max(privacy_filter_budget{{{_IN_UNIT}}} - "
                    f"privacy_filter_left{{{_IN_UNIT}}} - "
                    f"privacy_filter_reserved{{{_IN_UNIT}}}), 0)",
                    "spent",
                    ref="A",
                ),
                query(f"max(privacy_filter_reserved{{{_IN_UNIT}}})", "reserved", ref="B"),
                query(f"max(privacy_filter_budget{{{_IN_UNIT}}})", "budget", ref="C"),
            ],
            axis="$unit",
            calcs=("lastNotNull",),
            overrides=[
                override(
                    "budget",
                    color=color("red"),
                    custom__lineStyle=DASHED,
                    custom__fillOpacity=0,
                    custom__stacking={"mode": "none"},
                ),
                override("spent", color=color("blue")),
                override("reserved", color=color("purple")),
            ],
            stacked=True,
            stepped=True,
        ),
        panel_id=12,
        width=12,
        height=9,
    )


def _leakage(board: Board) -> None:
    board.row("Privacy loss so far", panel_id=20)
    board.add(
        lines(
            "Odometers and the guarantee",
            "Upper bounds on the privacy loss so far, in nats of epsilon. Each is valid at all "
            "moments together, with a small failure probability of its own. They may be above the "
            "guarantee of a healthy dataset: see the text next to this. An infinite reading is not "
            "drawn.",
            [
                query(
                    f"max by (odometer) (privacy_odometer_epsilon{{{ONE}}})",
                    "{{odometer}}",
                    ref="A",
                ),
                query(
                    f"max({_guarantee(_IN_EPSILON)})",
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


def _guarantee(selector: str) -> str:
    """Return the query of a guarantee, without a result where a claim was false."""
    return (
        f"privacy_guarantee{{{selector}}} unless on (dataset) privacy_guarantee_void{{{ONE}}} == 1"
    )
