"""What a notebook shows of a client and of a reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from accountant.advice.refused import refused_at
from accountant.html_table import grid, table
from accountant.policy import guarantee_of
from accountant.views.datasets import DatasetView

_MOST: Final = 50
_HEAD: Final = ("dataset", "guarantee", "spent", "left", "state")


def client_html(url: str, datasets: Sequence[DatasetView]) -> str:
    """Return a table of a ledger's datasets, the first fifty by name."""
    more = len(datasets) - _MOST
    caption = f"{url}: {len(datasets)} datasets" + (f", {_MOST} shown" if more > 0 else "")
    return grid(caption, _HEAD, map(_row, datasets[:_MOST]))


def _row(view: DatasetView) -> tuple[str, ...]:
    name, amount, delta = guarantee_of(view.policy)
    states = {"closed": view.closed, "halted": view.halted, "exhausted": view.exhausted}
    return (
        view.dataset,
        f"{name} {amount:f}, delta {delta:f}, for each {view.policy.unit}",
        f"{view.spent_ratio:.2%}",
        _amounts(view.left),
        next((state for state, holds in states.items() if holds), "open"),
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
        ("why", refused_at(reply.decision)),
        ("dataset", reply.dataset or ""),
        ("cost", _amounts(reply.cost)),
        ("asked", _amounts(reply.asked)),
        ("fits", reply.fits or ""),
        ("left", _amounts(reply.left)),
        ("crossed", ", ".join(reply.crossed)),
        ("request id", reply.request_id),
    )
    return table("Reply", [(name, text) for name, text in rows if text])


def _amounts(amounts: Mapping[str, Decimal | str]) -> str:
    return ", ".join(
        f"{name} {amount:f}" if isinstance(amount, Decimal) else f"{name} {amount}"
        for name, amount in amounts.items()
    )
