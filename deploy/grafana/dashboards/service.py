"""The workers: does every partition have one owner that keeps up?"""

from __future__ import annotations

from typing import Any, Final

from deploy.grafana.dashboards import levels
from deploy.grafana.dashboards.board import Board
from deploy.grafana.dashboards.panels import NONE_IS_GOOD, lines, number, query, rows, words
from deploy.grafana.dashboards.service_speed import processes, speed, trouble
from deploy.grafana.dashboards.shared import WORKER

# Without the probes, which are second scrapes of the same processes.
_PROCESSES: Final = 'job=~"accountant-.+",job!~".+-probe"'
_READY: Final = f"max by (partition, instance) (privacy_partition_ready{{{WORKER}}})"


def service() -> Board:
    """Return the dashboard of workers and partitions."""
    board = Board(
        "service",
        "Privacy accountant: the service",
        "Workers, partitions, lag, commits, refolds, and what went wrong.",
        since="now-6h",
        runbooks=levels.RUNBOOKS,
    )
    board.choose(
        "instance",
        "label_values(privacy_accountant_build_info, instance)",
        label="Process",
        several=True,
    )
    board.alerts('alertname=~"Privacy.+",dataset=""')
    _now(board)
    _partitions(board)
    speed(board)
    trouble(board)
    processes(board)
    return board


def _now(board: Board) -> None:
    board.row("Now", panel_id=1)
    small = {"width": 4, "height": 4}
    board.add(
        number(
            "Processes that answer",
            "Workers and gateways that Prometheus reaches. A process that does not answer may "
            "still decide, such as one that cannot check tokens: check it before anything else.",
            [query(f"count(up{{{_PROCESSES}}} == 1) or vector(0)")],
            levels=((None, "red"), (1, "green")),
        ),
        panel_id=2,
        **small,
    )
    board.add(
        number(
            "Processes that do not",
            "Configured targets that Prometheus tries to scrape and cannot reach.",
            [query(f"count(up{{{_PROCESSES}}} == 0) or vector(0)")],
            levels=NONE_IS_GOOD,
        ),
        panel_id=3,
        **small,
    )
    board.add(
        number(
            "Partitions unowned",
            "Partitions of the log that no worker is deciding. For some seconds after a start "
            "or a rebalance that is normal; then requests only wait.",
            [
                query(
                    "max(privacy_partitions) - "
                    "(count(count by (partition) (privacy_partition_ready == 1)) or vector(0))"
                )
            ],
            levels=NONE_IS_GOOD,
            nothing="no worker",
        ),
        panel_id=4,
        **small,
    )
    board.add(
        number(
            "Records waiting",
            "Requests and admin requests without a decision yet, over all partitions. For the "
            "waiting time, divide by the rate of decisions.",
            [query("sum(max by (topic, partition) (privacy_consumer_lag_records)) or vector(0)")],
            levels=levels.LAG,
            line=True,
        ),
        panel_id=5,
        **small,
    )
    board.add(
        number(
            "Last decision",
            "Time since the last decision. A long time is a stall only if records wait; perhaps "
            "there were no requests.",
            [query("time() - max(privacy_last_decision_timestamp_seconds > 0)")],
            unit="s",
            nothing="never",
            decimals=0,
        ),
        panel_id=6,
        **small,
    )
    board.add(
        number(
            "Halted partitions",
            "Partitions that decide nothing until an operator acts: the log is damaged or a "
            "setting is wrong. `accountant audit` names the first record that disagrees.",
            [query("sum(max by (partition) (privacy_partition_halted)) or vector(0)")],
            levels=NONE_IS_GOOD,
        ),
        panel_id=7,
        **small,
    )


def _columns() -> dict[str, tuple[str, dict[str, Any]]]:
    state = words(_0=("replaying", "orange"), _1=("deciding", "green"))
    colored = {"type": "color-text"}
    return {
        "partition": ("partition", {"custom__width": 90}),
        "instance": ("process", {}),
        "Value #A": ("state", {"mappings": state, "custom__cellOptions": colored}),
        "Value #B": ("decisions", {"decimals": 0, "unit": "locale"}),
        "Value #C": ("datasets", {"decimals": 0}),
        "Value #D": ("remembered ids", {"decimals": 0, "unit": "locale"}),
        "Value #E": ("records waiting", {"decimals": 0, "unit": "locale"}),
        "Value #F": ("last decision ago", {"unit": "s", "decimals": 0}),
        "Value #G": ("branch", {"decimals": 0}),
    }


def _partitions(board: Board) -> None:
    board.row("Partitions", panel_id=10)

    def of(metric: str) -> str:
        return f"max by (partition, instance) ({metric}{{{WORKER}}})"

    waiting = (
        "sum by (partition, instance) "
        f"(max by (topic, partition, instance) (privacy_consumer_lag_records{{{WORKER}}}))"
    )
    board.add(
        rows(
            "Owners",
            "The process that decides each partition. Two rows for one partition are normal for "
            "a moment after a rebalance, since the log has only one writer; for minutes they are "
            "not. Decisions: number of the last one, since the start of the log. Branch: above 0 "
            "once a loss of decisions was accepted.",
            [
                query(_READY, ref="A", table=True),
                query(f"{of('privacy_partition_sequence')} + 1", ref="B", table=True),
                query(of("privacy_partition_datasets"), ref="C", table=True),
                query(of("privacy_partition_remembered_ids"), ref="D", table=True),
                query(waiting, ref="E", table=True),
                query(
                    f"time() - ({of('privacy_last_decision_timestamp_seconds')} > 0)",
                    ref="F",
                    table=True,
                ),
                query(of("privacy_partition_branch"), ref="G", table=True),
            ],
            _columns(),
            sort="partition",
        ),
        panel_id=11,
        width=24,
        height=8,
    )
    board.add(
        lines(
            "Partitions by owner",
            "Number of partitions that each process decides. The height of the stack is the number "
            "of partitions; a dent is a time in which some had no owner.",
            [
                query(
                    f"sum by (instance) (privacy_partition_ready{{{WORKER}}}) > 0",
                    "{{instance}}",
                )
            ],
            stacked=True,
            decimals=0,
            calcs=("lastNotNull",),
            stepped=True,
        ),
        panel_id=12,
        width=8,
        height=8,
    )
    board.add(
        lines(
            "Records waiting, by topic",
            "Records without a decision yet, as last reported by the owner. A line that keeps "
            "rising means that a worker does not keep up.",
            [
                query(
                    "sum by (topic) "
                    f"(max by (topic, partition) (privacy_consumer_lag_records{{{WORKER}}}))",
                    "{{topic}}",
                )
            ],
            levels=levels.LAG,
            bounds=(0, 1),
        ),
        panel_id=13,
        width=8,
        height=8,
    )
    board.add(
        lines(
            "Since the last decision",
            "Time since each partition's last decision. A line that keeps rising while records "
            "wait means a stall.",
            [
                query(
                    "time() - (max by (partition) "
                    f"(privacy_last_decision_timestamp_seconds{{{WORKER}}}) > 0)",
                    "partition {{partition}}",
                )
            ],
            unit="s",
            beside=True,
            calcs=("lastNotNull",),
        ),
        panel_id=14,
        width=8,
        height=8,
    )
