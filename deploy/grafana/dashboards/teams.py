"""The limits of a budget: the use of each team's limit, and its remaining amounts."""

from __future__ import annotations

from typing import Final

from deploy.grafana.dashboards import levels
from deploy.grafana.dashboards.board import Board
from deploy.grafana.dashboards.panels import Steps, bars, lines, number, query, rows
from deploy.grafana.dashboards.shared import CHOSEN, ONE

_ONLY: Final = "(only with ACCOUNTANT_METRICS_LEVELS)"
_WHOSE: Final = "{{scope}} {{name}}"
_SHARE: Final[Steps] = ((None, "green"), (levels.threshold("team_share"), "orange"))
_PACE: Final[Steps] = ((None, "green"), (levels.threshold("pace_used_up"), "orange"))


def _used(labels: str, selector: str) -> str:
    """Return the used part of each limit, or without a limit of the reserved share."""
    return (
        f"max by ({labels}) (privacy_level_spent_ratio{{{selector}}} "
        f"or privacy_level_share_used_ratio{{{selector}}})"
    )


def teams_of_all(board: Board) -> None:
    """Add a row for the teams of every dataset."""
    teams = f'{CHOSEN},scope="team"'
    board.row(f"Teams {_ONLY}", panel_id=30)
    board.add(
        bars(
            "Share used",
            "Used part of each team's limit, highest first; for a team without a limit, of its "
            "reserved share. The colour changes at the alert's threshold. Limits may add up to "
            "more than the budget, so a team's request may be refused before its limit is used.",
            [
                query(
                    f"sort_desc({_used('dataset, name', teams)})",
                    "{{dataset}} {{name}}",
                    instant=True,
                )
            ],
            unit="percentunit",
            levels=_SHARE,
            most=1,
        ),
        panel_id=31,
        width=7,
        height=8,
    )
    board.add(
        bars(
            "Period limit used",
            "Used part of each team's period limit in the present period. It falls to 0 when the "
            "next period starts.",
            [
                query(
                    f"sort_desc(max by (dataset, name) (privacy_level_pace_used_ratio{{{teams}}}))",
                    "{{dataset}} {{name}}",
                    instant=True,
                )
            ],
            unit="percentunit",
            levels=_PACE,
            most=1,
        ),
        panel_id=32,
        width=7,
        height=8,
    )
    board.add(
        rows(
            "Left of each share",
            "Remaining amounts of the sums under each team's limit, as far as the dataset's own "
            "budget has room. This is epsilon only if the unit is epsilon.",
            [query(f"min by (dataset, name, unit) (privacy_level_left{{{teams}}})", table=True)],
            {
                "dataset": ("dataset", {"custom__width": 130}),
                "name": ("team", {"custom__width": 110}),
                "unit": ("unit", {"custom__width": 90}),
                "Value": ("left", {}),
            },
            sort="dataset",
        ),
        panel_id=33,
        width=10,
        height=8,
    )


def teams_of_one(board: Board) -> None:
    """Add a row for the limits of one dataset."""
    board.row(f"Teams and other limits {_ONLY}", panel_id=60)
    board.add(
        bars(
            "Share used",
            "Used part of each limit, highest first; without a limit, of the reserved share. "
            "Limits of single analysts are shown up to the cap of the setting; the use under a "
            "per-analyst default is not shown.",
            [query(f"sort_desc({_used('scope, name', ONE)})", _WHOSE, instant=True)],
            unit="percentunit",
            levels=_SHARE,
            most=1,
        ),
        panel_id=61,
        width=10,
        height=8,
    )
    board.add(
        lines(
            "Period limit used",
            "Used part of each period limit in the present period. It falls to 0 when the next "
            "period starts.",
            [
                query(
                    f"max by (scope, name) (privacy_level_pace_used_ratio{{{ONE}}})",
                    _WHOSE,
                )
            ],
            unit="percentunit",
            levels=_PACE,
            bounds=(0, 1),
            calcs=("lastNotNull",),
            stepped=True,
        ),
        panel_id=62,
        width=14,
        height=8,
    )
    board.add(
        rows(
            "Left, and time to the reset",
            "Remaining amounts of the sums under each limit, as far as the dataset's own budget "
            "has room; and the time until a period limit resets.",
            [
                query(
                    f"min by (scope, name, unit) (privacy_level_left{{{ONE}}})",
                    ref="A",
                    table=True,
                ),
                query(
                    "max by (scope, name) "
                    f"(privacy_level_pace_ends_timestamp_seconds{{{ONE}}}) - time()",
                    ref="B",
                    table=True,
                ),
            ],
            {
                "scope": ("scope", {"custom__width": 90}),
                "name": ("name", {"custom__width": 160}),
                "unit": ("unit", {"custom__width": 90}),
                "Value #A": ("left", {}),
                "Value #B": ("resets in", {"unit": "dtdurations", "decimals": 0}),
            },
            sort="scope",
        ),
        panel_id=63,
        width=20,
        height=6,
    )
    board.add(
        number(
            "Limits not shown",
            "Limits in force beyond the cap of the setting: they apply like any others, but the "
            "panels next to this do not show them. Over all datasets.",
            [query("sum(privacy_levels_not_shown) or vector(0)")],
        ),
        panel_id=64,
        width=4,
        height=6,
    )
