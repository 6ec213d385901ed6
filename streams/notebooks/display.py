"""Displays of clients, replies, decisions and datasets in notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from accountant.advice.preview import Preview
from accountant.display.datasets import more_words, present_guarantee
from accountant.display.endings import ending_words
from accountant.display.expected_errors import error_words, price_table
from accountant.display.limits import left_at_words, limit_sentence
from accountant.display.may_use import may_use, state_of
from accountant.display.members import member_sentence
from accountant.display.numbers import (
    counting_amounts,
    counting_cost,
    line,
    odometer_amounts,
    percents,
    remaining_headline,
    remaining_line,
    spent_line,
)
from accountant.display.odometers import odometers_of
from accountant.display.pauses import person_pause_words
from accountant.display.refusals import refusal_words
from accountant.display.spending import reserved_words, spending_of
from accountant.display.times import moment
from accountant.records import Decision
from accountant.views.datasets import DatasetView
from accountant.views.limit_views import AnalystBudget
from streams.notebooks.html_table import format_value, grid, table

_MAX_ROWS: Final = 50
_HEAD: Final = ("dataset", "guarantee", "spent", "left", "state")


def client_html(url: str, datasets: Sequence[DatasetView]) -> str:
    """Return a table of a ledger's datasets: the first fifty, by name."""
    more = len(datasets) - _MAX_ROWS
    caption = f"{url}: {len(datasets)} datasets" + (f", {_MAX_ROWS} shown" if more > 0 else "")
    return grid(caption, _HEAD, map(_row, datasets[:_MAX_ROWS]))


def _row(view: DatasetView) -> tuple[str, ...]:
    return (
        view.dataset,
        f"{present_guarantee(view)}, for each {view.policy.unit}",
        spending_of(view).spent_and_reserved,
        _left_of_view(view),
        view.state,
    )


def reply_html(reply: Any) -> str:
    """Return a table of the reply to a request.

    Args:
        reply: a `Reply`; that module imports this one.
    """
    rows = (
        ("granted", "yes" if reply.granted else "no"),
        ("left", remaining_words(reply.decision)),
        ("outcome", str(reply.outcome)),
        ("reason", str(reply.reason or "")),
        ("why", reply.why),
        ("dataset", reply.dataset or ""),
        ("cost", _cost(_texts(reply.cost), reply.decision)),
        ("asked", _cost(_texts(reply.asked), reply.decision)),
        ("fits", reply.fits or ""),
        ("ends", ending_words(reply.decision)),
        ("thresholds reached", percents(reply.crossed)),
        ("request id", reply.request_id),
    )
    return table("Reply", rows)


def remaining_words(decision: Decision) -> str:
    """Return the remaining budget after a decision: `94.8 % left (ε 0.95)`; "" if unknown.

    Sums that the filter no longer counts, or that the budget has none of, are left out.
    """
    return _remaining(
        remaining_headline(decision.left, decision.totals), decision.left, decision.totals
    )


def _left_of_view(view: DatasetView) -> str:
    return _remaining(f"{spending_of(view).left} left", view.left, view.totals)


def _remaining(
    headline: str, left: Mapping[str, str] | None, totals: Mapping[str, str | int] | None
) -> str:
    amounts = remaining_line(counting_amounts(left, totals))
    return f"{headline} ({amounts})" if headline and amounts else headline or amounts


def _cost(amounts: Mapping[str, str] | None, decision: Decision) -> str:
    return spent_line(counting_cost(amounts, decision.left, decision.totals))


def _texts(amounts: Mapping[str, Decimal]) -> dict[str, str]:
    return {name: f"{amount:f}" for name, amount in amounts.items()}


def decision_html(decision: Decision) -> str:
    """Return a table of a decision, without empty rows."""
    first = decision.first
    rows = (
        ("outcome", str(decision.outcome)),
        ("reason", str(decision.reason or "")),
        ("why", refusal_words(decision)),
        ("error", format_value(decision.error)),
        ("dataset", decision.dataset or ""),
        ("cost", _cost(decision.cost, decision)),
        ("asked", _cost(decision.asked, decision)),
        ("fits", decision.fits or ""),
        ("ends", ending_words(decision)),
        ("left", remaining_words(decision)),
        ("left at", "; ".join(left_at_words(decision.left_at, decision.left, decision.asked))),
        ("odometers", line(odometer_amounts(decision.odometers or {}))),
        ("thresholds reached", percents(decision.crossed)),
        ("first", "" if first is None else f"{first.outcome} at {moment(first.decided_at)}"),
        ("policy", format_value(decision.policy)),
        ("budget", remaining_line(decision.budget)),
        ("owners", ", ".join(decision.owners)),
        ("member", "" if decision.member is None else member_sentence(decision.member)),
        ("pause", "" if decision.pause is None else person_pause_words(decision.pause)),
        ("limit", "" if decision.limit is None else limit_sentence(decision.limit)),
        ("decided at", moment(decision.decided_at)),
        ("partition sequence", str(decision.partition_sequence)),
        ("note", decision.note or ""),
    )
    return table("Decision", rows)


def dataset_html(view: DatasetView) -> str:
    """Return a table of a dataset, without empty rows."""
    rows = (
        ("dataset", view.dataset),
        ("state", view.state),
        ("guarantee", f"{present_guarantee(view)}, for each {view.policy.unit}"),
        ("policy", format_value(view.policy)),
        ("spent", spending_of(view).spent),
        ("reserved", reserved_words(view)),
        ("budget", remaining_line(view.budget)),
        ("left", _left_of_view(view)),
        ("odometers", line(odometers_of(view))),
        ("thresholds reached", percents(view.crossed)),
        ("opened", moment(view.opened_at)),
        ("last decision", moment(view.last_decided_at)),
        ("to last until", moment(view.horizon_ends_at)),
        ("outcomes", format_value(view.outcomes)),
    )
    return table("DatasetView", rows)


def preview_html(preview: Preview) -> str:
    """Return a table of a preview of a request, without empty rows."""
    rows = (
        ("would be granted", "yes" if preview.granted else "no"),
        ("why", refusal_words(preview)),
        ("dataset", preview.dataset),
        ("cost", spent_line(counting_cost(preview.cost, preview.left))),
        ("asked", spent_line(counting_cost(preview.asked, preview.left))),
        ("fits", preview.fits or ""),
        (
            "left after it" if preview.granted else "left",
            remaining_line(counting_amounts(preview.left)),
        ),
        ("then", more_words(preview.more) if preview.granted else ""),
        ("left at", "; ".join(left_at_words(preview.limits_left or (), preview.left))),
        ("ends", ending_words(preview)),
        *(("error", error_words(each)) for each in preview.expected_errors or ()),
    )
    head, prices = price_table(preview)
    shown = table("Preview", rows)
    return shown + grid("The same question at five prices", head, prices) if prices else shown


def budget_html(budget: AnalystBudget) -> str:
    """Return a table of an analyst's remaining budget, without empty rows."""
    found = may_use(budget, state_of(budget))
    amount = f" ({found.amount})" if found.amount else ""
    rows = (
        ("dataset", budget.dataset),
        ("analyst", budget.analyst),
        ("team", budget.team or ""),
        ("paused", "nothing is granted until an owner resumes it" if found.is_paused else ""),
        ("may still use", f"{found.percent} of the budget{amount}"),
        ("decided by", found.by),
        ("more comes at", moment(found.more_at) or found.waiting),
    )
    return table("AnalystBudget", rows)


# Notebooks call `_repr_html_`. The core defines these classes and has no HTML.
Decision._repr_html_ = decision_html  # type: ignore[attr-defined]
DatasetView._repr_html_ = dataset_html  # type: ignore[attr-defined]
Preview._repr_html_ = preview_html  # type: ignore[attr-defined]
AnalystBudget._repr_html_ = budget_html  # type: ignore[attr-defined]
