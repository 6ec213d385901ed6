"""What a notebook shows of a client, a reply, a decision and a dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from accountant.display.datasets import guarantee
from accountant.display.limits import left_at_words, limit_sentence
from accountant.display.members import member_sentence
from accountant.display.numbers import (
    left_line,
    line,
    odometer_amounts,
    percents,
    spent_line,
    spent_percent,
)
from accountant.display.refusals import refusal_words
from accountant.display.times import moment
from accountant.records import Decision
from accountant.views.datasets import DatasetView
from streams.client.notebooks.html_table import grid, table, text_of

_MAX_ROWS: Final = 50
_HEAD: Final = ("dataset", "guarantee", "spent", "left", "state")


def client_html(url: str, datasets: Sequence[DatasetView]) -> str:
    """Return a table of a ledger's datasets, the first fifty by name."""
    more = len(datasets) - _MAX_ROWS
    caption = f"{url}: {len(datasets)} datasets" + (f", {_MAX_ROWS} shown" if more > 0 else "")
    return grid(caption, _HEAD, map(_row, datasets[:_MAX_ROWS]))


def _row(view: DatasetView) -> tuple[str, ...]:
    return (
        view.dataset,
        f"{guarantee(view.policy)}, for each {view.policy.unit}",
        spent_percent(view.spent_ratio),
        left_line(view.left),
        view.state,
    )


def reply_html(reply: Any) -> str:
    """Return a table of what a ledger replies to a request.

    Args:
        reply: a `Reply`, which imports this module.
    """
    rows = (
        ("granted", "yes" if reply.granted else "no"),
        ("outcome", str(reply.outcome)),
        ("reason", str(reply.reason or "")),
        ("why", refusal_words(reply.decision)),
        ("dataset", reply.dataset or ""),
        ("cost", spent_line(_texts(reply.cost))),
        ("asked", spent_line(_texts(reply.asked))),
        ("fits", reply.fits or ""),
        ("left", left_line(_texts(reply.left))),
        ("crossed", percents(reply.crossed)),
        ("request id", reply.request_id),
    )
    return table("Reply", rows)


def _texts(amounts: Mapping[str, Decimal]) -> dict[str, str]:
    return {name: f"{amount:f}" for name, amount in amounts.items()}


def decision_html(decision: Decision) -> str:
    """Return a table of a decision; what is empty is left out."""
    first = decision.first
    rows = (
        ("outcome", str(decision.outcome)),
        ("reason", str(decision.reason or "")),
        ("why", refusal_words(decision)),
        ("error", text_of(decision.error)),
        ("dataset", decision.dataset or ""),
        ("cost", spent_line(decision.cost)),
        ("asked", spent_line(decision.asked)),
        ("fits", decision.fits or ""),
        ("left", left_line(decision.left)),
        ("left at", "; ".join(left_at_words(decision.left_at, decision.left))),
        ("odometers", line(odometer_amounts(decision.odometers or {}))),
        ("crossed", percents(decision.crossed)),
        ("first", "" if first is None else f"{first.outcome} at {moment(first.decided_at)}"),
        ("policy", text_of(decision.policy)),
        ("budget", left_line(decision.budget)),
        ("owners", ", ".join(decision.owners)),
        ("member", "" if decision.member is None else member_sentence(decision.member)),
        ("limit", "" if decision.limit is None else limit_sentence(decision.limit)),
        ("decided at", moment(decision.decided_at)),
        ("partition sequence", str(decision.partition_sequence)),
        ("note", decision.note or ""),
    )
    return table("Decision", rows)


def dataset_html(view: DatasetView) -> str:
    """Return a table of a dataset; what is empty is left out."""
    rows = (
        ("dataset", view.dataset),
        ("state", view.state),
        ("guarantee", f"{guarantee(view.policy)}, for each {view.policy.unit}"),
        ("policy", text_of(view.policy)),
        ("spent", spent_percent(view.spent_ratio)),
        ("budget", left_line(view.budget)),
        ("left", left_line(view.left)),
        ("odometers", line(odometer_amounts(view.odometers))),
        ("crossed", percents(view.crossed)),
        ("opened", moment(view.opened_at)),
        ("last decision", moment(view.last_decided_at)),
        ("to last until", moment(view.horizon_ends_at)),
        ("outcomes", text_of(view.outcomes)),
    )
    return table("DatasetView", rows)


# Notebooks call `_repr_html_` of what they show. The core, whose classes these are, knows no HTML.
Decision._repr_html_ = decision_html  # type: ignore[attr-defined]
DatasetView._repr_html_ = dataset_html  # type: ignore[attr-defined]
