"""One dataset: its burn rate, its requests, and its analysts."""

from __future__ import annotations

from deploy.grafana.dashboards import levels
from deploy.grafana.dashboards.board import Board, override
from deploy.grafana.dashboards.panels import NEUTRAL, bars, lines, number, query
from deploy.grafana.dashboards.shared import COUNTED, DASHED, EXHAUSTION, ONE, decisions_by_outcome

_LEFT_OUT = "privacy_analyst_requests_left_out_total"
# Each worker counts its own hidden requests, and each gateway those of the whole log.
_BY_WORKERS = f'sum({_LEFT_OUT}{{job!="accountant-gateway"}})'


def pace(board: Board) -> None:
    """Add the burn rate of the budget."""
    board.row("Burn rate", panel_id=30)
    windows = (("5m", "5 minutes"), ("1h", "1 hour"), ("6h", "6 hours"))
    board.add(
        lines(
            "Burn",
            "The ratio of the spending to the planned spending, over several windows and since the "
            "opening. 1x lasts exactly to the end of the horizon. An alert needs a long and a "
            "short window above its line. A gap is a time without spending. Without a horizon "
            "there are no lines.",
            [
                *(
                    query(
                        f"max(dataset:privacy_filter_burn:ratio{window}{{{ONE}}})",
                        f"last {name}",
                        ref=ref,
                    )
                    for ref, (window, name) in zip("ABC", windows, strict=True)
                ),
                query(f"max(privacy_filter_burn_ratio{{{ONE}}})", "since opening", ref="D"),
            ],
            unit="suffix:x",
            levels=levels.BURN,
            bounds=(None, None),
            powers=True,
        ),
        panel_id=31,
        width=12,
        height=9,
    )
    board.add(
        lines(
            "Time to exhaustion, and to the end of the horizon",
            "When the budget ends at the rate of the last six hours, and when its horizon ends. "
            "While the first is below the second, the budget ends too early. A gap is a time "
            "without spending. The end of the line is the end of the budget.",
            [
                query(
                    EXHAUSTION,
                    "to exhaustion",
                    ref="A",
                ),
                query(
                    f"clamp_min(max(privacy_filter_horizon_seconds{{{ONE}}}) - (time() - "
                    f"max(privacy_dataset_opened_timestamp_seconds{{{ONE}}})), 0)",
                    "to the end of the horizon",
                    ref="B",
                ),
            ],
            unit="dtdurations",
            bounds=(None, None),
            powers=True,
            overrides=[override("to the end of the horizon", custom__lineStyle=DASHED)],
            calcs=("lastNotNull",),
        ),
        panel_id=32,
        width=12,
        height=9,
    )


def requests(board: Board) -> None:
    """Add the requests and the reasons of refusals."""
    board.row("Requests", panel_id=40)
    board.add(
        decisions_by_outcome(ONE),
        panel_id=41,
        width=12,
        height=9,
    )
    board.add(
        bars(
            "Not granted, by reason",
            "Refused and invalid requests since a worker took the partition over, by the reason "
            "in the decision. `accountant audit` counts the whole log.",
            [
                query(
                    f"sort_desc(sum by (reason) (privacy_requests_total{{{ONE},"
                    'outcome=~"refused|invalid"}))',
                    "{{reason}}",
                    instant=True,
                )
            ],
            levels=((None, "red"),),
        ),
        panel_id=42,
        width=12,
        height=9,
    )


def analysts(board: Board) -> None:
    """Add the use by analyst, if workers export it."""
    board.row("Use by analyst (only with ACCOUNTANT_METRICS_ANALYSTS)", panel_id=50)
    board.add(
        bars(
            "Spent by analyst",
            "The cost of each analyst's grants, in the additive unit: since the log started "
            "if the gateway exports it, otherwise since a worker took the partition over. This "
            "shows grants, not knowledge: analysts can share results, and only the dataset's "
            "budget is a guarantee. Empty unless a setting makes the gateway or the workers "
            "export analysts by name, which may itself be personal data.",
            [
                query(
                    f"sort_desc(max by (analyst) (privacy_analyst_spent{{{ONE}}}))",
                    "{{analyst}}",
                    instant=True,
                )
            ],
            levels=NEUTRAL,
        ),
        panel_id=51,
        width=9,
        height=8,
    )
    board.add(
        lines(
            "Requests by analyst",
            f"Grants and refusals per second of each analyst. {COUNTED}",
            [
                query(
                    # Gateways and a worker may export the same numbers, so do not add them.
                    "max by (analyst, outcome) "
                    f"(rate(privacy_analyst_requests_total{{{ONE}}}[$__rate_interval]))",
                    "{{analyst}} {{outcome}}",
                )
            ],
            unit="reqps",
            stacked=True,
            beside=True,
            calcs=("max",),
        ),
        panel_id=52,
        width=12,
        height=8,
    )
    board.add(
        number(
            "Not shown",
            "Requests by analysts beyond the cap of the setting: they are decided like any others, "
            "but the panels next to this do not show them. Over all datasets.",
            [query(f"{_BY_WORKERS} or max({_LEFT_OUT}) or vector(0)")],
        ),
        panel_id=53,
        width=3,
        height=8,
    )
