"""All datasets on one page: for whoever owns them, or is woken up."""

from __future__ import annotations

from deploy.grafana.dashboards import levels
from deploy.grafana.dashboards.board import Board
from deploy.grafana.dashboards.overview_budgets import budgets
from deploy.grafana.dashboards.panels import (
    NONE_IS_GOOD,
    lines,
    number,
    query,
    rows,
    words,
)
from deploy.grafana.dashboards.shared import (
    CHOSEN,
    CLOSED,
    COUNTED,
    EXHAUSTED,
    decisions_by_outcome,
)
from deploy.grafana.dashboards.teams import teams_of_all


def overview() -> Board:
    """Return the dashboard of all datasets."""
    board = Board(
        "overview",
        "Privacy budgets: overview",
        "Every dataset: how much of its budget is spent, how fast, and what is refused.",
        since="now-24h",
        runbooks=levels.RUNBOOKS,
    )
    board.choose(
        "dataset",
        "label_values(privacy_filter_spent_ratio, dataset)",
        label="Dataset",
        several=True,
    )
    board.alerts('alertname=~"Privacy.+"')
    _now(board)
    _alerts(board)
    budgets(board)
    teams_of_all(board)
    _requests(board)
    return board


def _now(board: Board) -> None:
    board.row("Now", panel_id=1)
    board.add(
        number(
            "Datasets open",
            "Datasets that have an owner worker and are not closed.",
            [query(f"count({CLOSED} == 0) or vector(0)")],
        ),
        panel_id=2,
        width=4,
        height=4,
    )
    board.add(
        number(
            "Exhausted",
            "Datasets whose budget is reached, or that refused a request within 5 % of it, or "
            "that a policy halts at the first refusal. Nothing is broken: the filter does what "
            "it is for. Unless halted, small requests may still fit.",
            [query(f"sum({EXHAUSTED}) or vector(0)")],
            levels=NONE_IS_GOOD,
        ),
        panel_id=3,
        width=4,
        height=4,
    )
    board.add(
        number(
            "Burning too fast",
            "Datasets that spent more in the last hour than an hour's share of their horizon. "
            "Datasets without a horizon have no such share and are not counted.",
            [query(f"count(dataset:privacy_filter_burn:ratio1h{{{CHOSEN}}} > 1) or vector(0)")],
            levels=((None, "green"), (1, "orange")),
        ),
        panel_id=4,
        width=4,
        height=4,
    )
    board.add(
        number(
            "Refused in the last hour",
            "Part of the decided mechanism requests that were refused. Many refusals are a "
            f"question to the analysts, not a fault. {COUNTED}",
            [
                query(
                    f'sum(increase(privacy_requests_total{{{CHOSEN},outcome="refused"}}[1h])) / '
                    f"(sum(increase(privacy_requests_total{{{CHOSEN},"
                    'outcome=~"granted|refused"}[1h])) > 0)'
                )
            ],
            unit="percentunit",
            levels=levels.REFUSED,
            nothing="no requests",
            decimals=1,
        ),
        panel_id=5,
        width=4,
        height=4,
    )
    board.add(
        number(
            "Alerts firing",
            "Alerts of this service that fire now. Each has its entry in the runbooks.",
            [query('count(ALERTS{alertstate="firing",alertname=~"Privacy.+"}) or vector(0)')],
            levels=NONE_IS_GOOD,
        ),
        panel_id=6,
        width=4,
        height=4,
    )
    board.add(
        number(
            "Partitions unowned",
            "Partitions of the log that no worker is deciding. Their datasets answer nothing and "
            "show no numbers anywhere on this page.",
            [
                query(
                    "max(privacy_partitions) - "
                    "(count(count by (partition) (privacy_partition_ready == 1)) or vector(0))"
                )
            ],
            levels=NONE_IS_GOOD,
            nothing="no worker",
        ),
        panel_id=7,
        width=4,
        height=4,
    )


def _alerts(board: Board) -> None:
    labels = ("alertname", "severity", "dataset", "team", "partition", "topic", "instance")
    known = ", ".join(labels)
    runbook = {"title": "Runbooks", "url": "${runbooks}", "targetBlank": True}
    severity = words(critical=("critical", "red"), warning=("warning", "orange"))
    board.add(
        rows(
            "Firing",
            "Alerts of this service that fire now. A name leads to the runbooks, where each has "
            "its entry: what it means and the command to run. Empty is good.",
            [
                query(
                    f'max by ({known}) (ALERTS{{alertstate="firing",alertname=~"Privacy.+"}})',
                    table=True,
                )
            ],
            {
                "alertname": ("alert", {"links": [runbook], "custom__width": 320}),
                "severity": (
                    "severity",
                    {"mappings": severity, "custom__cellOptions": {"type": "color-text"}},
                ),
                **{label: (label, {}) for label in labels[2:]},
            },
            sort="severity",
        ),
        panel_id=8,
        width=24,
        height=8,
    )


def _requests(board: Board) -> None:
    board.row("Requests", panel_id=20)
    board.add(
        decisions_by_outcome(CHOSEN),
        panel_id=21,
        width=12,
        height=8,
    )
    refused = (
        f'rate(privacy_requests_total{{{CHOSEN},outcome=~"refused|invalid"}}[$__rate_interval])'
    )
    board.add(
        lines(
            "Not granted, by reason",
            "Refused and invalid requests per second, by the reason that the decision names. "
            "`exhausted`: it cost more than is left. `internal_error`: a fault of ours.",
            [query(f"sum by (reason) ({refused})", "{{reason}}")],
            unit="reqps",
            stacked=True,
            beside=True,
            calcs=("max",),
        ),
        panel_id=22,
        width=12,
        height=8,
    )
    board.add(
        lines(
            "Refused part, by dataset",
            "Refused requests out of all decided ones, over five minutes. The dashed line is "
            "where the alert fires, if it lasts.",
            [
                query(
                    "dataset:privacy_requests_refused_per_requests:ratio_rate5m"
                    f'{{{CHOSEN},dataset!=""}}',
                    "{{dataset}}",
                )
            ],
            unit="percentunit",
            levels=levels.REFUSED,
            beside=True,
            calcs=("lastNotNull", "max"),
            bounds=(0, 1),
        ),
        panel_id=23,
        width=24,
        height=8,
    )
