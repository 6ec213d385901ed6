"""Panels and texts in more than one dashboard."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders import timeseries

from deploy.grafana.dashboards.board import override
from deploy.grafana.dashboards.panels import Overrides, lines, query, words

CHOSEN: Final = 'dataset=~"$dataset"'
EXHAUSTED: Final = f"max by (dataset) (privacy_filter_exhausted{{{CHOSEN}}})"
CLOSED: Final = f"max by (dataset) (privacy_dataset_closed{{{CHOSEN}}})"
STATES: Final = words(
    _0=("open", "green"),
    _1=("exhausted", "red"),
    _2=("paused", "yellow"),
    _3=("paused", "yellow"),  # and exhausted
    **{f"_{number}": ("suspended", "red") for number in range(4, 8)},
    _8=("closed", "text"),
)
"""The words of a dataset's state, as `state` counts it."""
WORKER: Final = 'instance=~"$instance"'
ONE: Final = 'dataset="$dataset"'
EXHAUSTION: Final = (
    f"min(dataset:privacy_filter_time_to_exhaustion_seconds:deriv6h{{{ONE}}}) "
    f"unless (max(privacy_filter_exhausted{{{ONE}}}) == 1)"
)
DASHED: Final = {"fill": "dash", "dash": [10, 10]}

OUTCOME_COLORS: Final = {
    "granted": "green",
    "reserved": "super-light-green",
    "begun": "light-green",
    "settled": "semi-dark-green",
    "voided": "text",
    "refused": "red",
    "repeated": "blue",
    "invalid": "orange",
    "conflict": "purple",
    "expired": "yellow",
}


def state(selector: str) -> str:
    """Return the query of datasets' states: exhausted 1, paused 2, suspended 4, closed 8."""
    flags = ("filter_exhausted", "dataset_paused", "dataset_suspended", "dataset_closed")
    each = [f"{2**i} * max by (dataset) (privacy_{n}{{{selector}}})" for i, n in enumerate(flags)]
    return f"clamp_max({' + '.join(each)}, 8)"


def reserved(selector: str) -> str:
    """Return the query of the part of datasets' budgets that open reservations hold."""
    spent, settled = (f"privacy_filter_{n}_ratio{{{selector}}}" for n in ("spent", "settled"))
    return f"max by (dataset) ({spent} - {settled})"


def color(name: str) -> dict[str, str]:
    """Return the property of a field that always has one colour."""
    return {"mode": "fixed", "fixedColor": name}


def outcomes() -> Overrides:
    """Return the colours of outcomes: the same on every graph."""
    return [override(name, color=color(shade)) for name, shade in OUTCOME_COLORS.items()]


COUNTED: Final = (
    "Counters start at 0 when a worker takes the partition over, and Prometheus finds an increase "
    "only between two scrapes: the first decision of a kind may be missing on this panel. "
    "`accountant audit` counts the log itself."
)


def decisions_by_outcome(selector: str) -> timeseries.Panel:
    """Return the rate of decisions of the datasets selected."""
    rate = f"rate(privacy_requests_total{{{selector}}}[$__rate_interval])"
    return lines(
        "Decisions by outcome",
        f"Decided records per second. `repeated` is a retry: it spends nothing. {COUNTED}",
        [query(f"sum by (outcome) ({rate})", "{{outcome}}")],
        unit="reqps",
        stacked=True,
        overrides=outcomes(),
        beside=True,
        calcs=("max",),
    )
