"""The workers: how fast they decide, what went wrong, and what they use."""

from __future__ import annotations

from typing import Any

from deploy.grafana.dashboards.board import Board, override
from deploy.grafana.dashboards.panels import lines, query, rows
from deploy.grafana.dashboards.shared import WORKER


def _quantiles(metric: str) -> list[Any]:
    rate = f"sum by (le) (rate({metric}_bucket{{{WORKER}}}[$__rate_interval]))"
    return [
        query(f"histogram_quantile({part}, {rate})", name, ref=ref, exemplar=ref == "A")
        for ref, part, name in (("A", 0.99, "99 %"), ("B", 0.5, "half"))
    ]


def speed(board: Board) -> None:
    """Add how long decisions, transactions and refolds take."""
    board.row("Speed", panel_id=20)
    within = (
        "Estimated within the bucket it falls into, so no finer than the buckets are. Points "
        "are single requests: each leads to its request id."
    )
    board.add(
        lines(
            "Decisions",
            "Decided records per second, by process, from the log's point of view: retries "
            "and refusals are decided as well.",
            [
                query(
                    "sum by (instance) "
                    f"(rate(privacy_requests_total{{{WORKER}}}[$__rate_interval]))",
                    "{{instance}}",
                )
            ],
            unit="reqps",
            stacked=True,
        ),
        panel_id=21,
        width=8,
        height=8,
    )
    board.add(
        lines(
            "From append to decision",
            "Time from the append of a request to its visible decision: the median and the 99th "
            f"percentile. A client waits longer than this. {within}",
            _quantiles("privacy_decision_duration_seconds"),
            unit="s",
        ),
        panel_id=22,
        width=8,
        height=8,
    )
    board.add(
        lines(
            "One transaction",
            f"Duration of a commit: the median and the 99th percentile. {within}",
            _quantiles("privacy_commit_duration_seconds"),
            unit="s",
        ),
        panel_id=23,
        width=8,
        height=8,
    )
    board.add(
        lines(
            "Decisions in one transaction",
            "Batches grow under load. This is no fault: it lets a worker keep up.",
            _quantiles("privacy_commit_records"),
        ),
        panel_id=24,
        width=12,
        height=8,
    )
    board.add(
        lines(
            "Last replay",
            "How long the owner read the log before it could decide: at a start, and after a "
            "fault. The partition decides nothing meanwhile.",
            [
                query(
                    f"max by (partition) (privacy_refold_duration_seconds{{{WORKER}}})",
                    "partition {{partition}}",
                )
            ],
            unit="s",
            stepped=True,
            beside=True,
            calcs=("lastNotNull",),
        ),
        panel_id=25,
        width=12,
        height=8,
    )


def trouble(board: Board) -> None:
    """Add faults, dead letters, the delivery of alerts, and answers."""
    board.row("Trouble", panel_id=30)

    def grown(metric: str, by: str) -> str:
        return f"sum by ({by}) (increase({metric}{{{WORKER}}}[$__rate_interval]))"

    board.add(
        lines(
            "Fencings",
            "Times that another process took over a partition from an owner that was still "
            "running. One or two with a rebalance are normal; many mean that two owners fence each "
            "other.",
            [
                query(
                    grown("privacy_partition_fencings_total", "partition"),
                    "partition {{partition}}",
                )
            ],
            stacked=True,
            bounds=(0, 1),
            calcs=("max",),
            beside=True,
        ),
        panel_id=31,
        width=8,
        height=8,
    )
    board.add(
        lines(
            "Faults",
            "Times that a partition's state was dropped and replayed, by kind of error, since each "
            "worker started. This never causes a wrong decision: dropped work was never visible.",
            [query(f"sum by (fault) (privacy_partition_faults_total{{{WORKER}}})", "{{fault}}")],
            stacked=True,
            stepped=True,
            decimals=0,
            bounds=(0, 1),
            calcs=("lastNotNull",),
        ),
        panel_id=32,
        width=8,
        height=8,
    )
    board.add(
        lines(
            "Dead letters",
            "Dead-lettered input records, by reason. None is lost: each has a decision in the log. "
            "`internal_error` is a bug of this program; the others are faults of the sender.",
            [query(grown("privacy_dead_letters_total", "reason"), "{{reason}}")],
            stacked=True,
            bounds=(0, 1),
            calcs=("max",),
        ),
        panel_id=33,
        width=8,
        height=8,
    )
    _deliveries(board)


def _deliveries(board: Board) -> None:
    board.add(
        lines(
            "Threshold alerts waiting",
            "Records of thresholds that datasets reached, not yet accepted by the topic or the "
            "webhook. Nearly always 0. None is lost: after a restart they are sent again. These "
            "are not the alerts of Prometheus.",
            [query(f"sum by (to) (privacy_alerts_waiting{{{WORKER}}})", "{{to}}")],
            stepped=True,
            decimals=0,
            bounds=(0, 1),
        ),
        panel_id=34,
        width=6,
        height=8,
    )
    board.add(
        lines(
            "Threshold alerts sent",
            "Attempts to send them to the topic or the webhook, since each process started. A "
            "repeat counts again; receivers recognize it by its id. Failed attempts are repeated.",
            [
                query(
                    f"sum by (to, outcome) (privacy_alert_deliveries_total{{{WORKER}}})",
                    "{{to}}, {{outcome}}",
                )
            ],
            stepped=True,
            decimals=0,
            bounds=(0, 1),
            calcs=("lastNotNull",),
            beside=True,
        ),
        panel_id=35,
        width=6,
        height=8,
    )
    board.add(
        lines(
            "Oldest question without an answer",
            "Age of the oldest granted question that has no answer yet, or whose session is not "
            "settled, and how many wait. Questions are charged before they run.",
            [
                # Without a waiting question there is no series.
                query(
                    "max by (dataset) (privacy_question_wait_seconds) or vector(0)", "{{dataset}}"
                ),
                query("sum(privacy_questions_waiting) or vector(0)", "waiting", ref="B"),
                query(
                    "max(privacy_question_unanswered_seconds) or vector(0)",
                    "seen by gateways",
                    ref="C",
                ),
                query(
                    "max(sum by (instance) (privacy_questions_unanswered)) or vector(0)",
                    "no answer",
                    ref="D",
                ),
            ],
            overrides=[
                override("waiting", unit="short", custom__axisPlacement="right"),
                override("no answer", unit="short", custom__axisPlacement="right"),
            ],
            unit="s",
            bounds=(0, 1),
        ),
        panel_id=36,
        width=6,
        height=8,
    )
    board.add(
        lines(
            "Answers",
            "Answers that curators have published, by outcome. One that has failed was charged, "
            "and is not run again.",
            [
                query(
                    "sum by (outcome) (increase(privacy_answers_total[$__rate_interval]))",
                    "{{outcome}}",
                )
            ],
            stacked=True,
            bounds=(0, 1),
            calcs=("max",),
        ),
        panel_id=37,
        width=6,
        height=8,
    )


def processes(board: Board) -> None:
    """Add the running processes and their resources."""
    board.row("Processes", panel_id=40)
    info = f"max by (instance, version, rules, python) (privacy_accountant_build_info{{{WORKER}}})"
    board.add(
        rows(
            "Versions",
            "The running versions. Workers of one log must have the same number of `rules`.",
            [
                query(info, ref="A", table=True),
                query(
                    f"time() - max by (instance) (process_start_time_seconds{{{WORKER}}})",
                    ref="B",
                    table=True,
                ),
            ],
            {
                "instance": ("process", {"custom__width": 160}),
                "version": ("version", {"custom__width": 80}),
                "rules": ("rules", {"custom__width": 60}),
                "python": ("python", {"custom__width": 80}),
                "Value #B": ("running for", {"unit": "dtdurations", "decimals": 0}),
            },
            sort="process",
        ),
        panel_id=41,
        width=10,
        height=8,
    )
    board.add(
        lines(
            "CPU",
            "Processor cores in use. A worker decides on one.",
            [
                query(
                    f"rate(process_cpu_seconds_total{{{WORKER}}}[$__rate_interval])",
                    "{{instance}}",
                )
            ],
        ),
        panel_id=42,
        width=7,
        height=8,
    )
    board.add(
        lines(
            "Memory",
            "Resident memory. It grows with datasets and with remembered ids; a partition "
            "remembers at most a million.",
            [query(f"process_resident_memory_bytes{{{WORKER}}}", "{{instance}}")],
            unit="bytes",
        ),
        panel_id=43,
        width=7,
        height=8,
    )
