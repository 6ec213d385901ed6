"""All datasets on one page, for their owners and for operators on call."""

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
        "Every dataset: the spent part of its budget, its burn rate, and its refusals.",
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
            "Datasets with a used-up budget, or with a refusal within 5 % of it, or with a policy "
            "that has halted at the first refusal. This is no fault: it is the purpose of the "
            "filter. Unless halted, small requests may still fit.",
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
            "Datasets that spent more in the last hour than the planned amount for an hour. "
            "Datasets without a horizon have no planned amount and are not counted.",
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
            "Refused part of the decided mechanism requests. If many are refused, ask the "
            f"analysts; it is no fault of the service. {COUNTED}",
            [
                query(
                    f'sum(increase(privacy_requests_total{{{CHOSEN},outcome="refused"}}[1h])) / '
                    f"(sum(increase(privacy_requests_total{{{CHOSEN},"
                    'outcome=~"granted|reserved|refused"}[1h])) > 0)'
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
            "Alerts of this service that fire now. Each has an entry in the runbooks.",
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
            "Partitions of the log that no worker is deciding. Their datasets get no decisions and "
            "have no numbers on this page.",
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
            "Alerts of this service that fire now. Each name links to the runbooks, with the "
            "meaning of the alert and the command to run. Empty is good.",
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
            "Refused and invalid requests per second, by the reason in the decision. `exhausted`: "
            "the cost was higher than the remaining budget. `internal_error`: a bug of ours.",
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
            "Refused part of all decided requests, over five minutes. Above the dashed line the "
            "alert fires after a while.",
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
