"""Rows of requests that wait for approval on a dataset's page."""

from __future__ import annotations

from typing import NamedTuple

from accountant.advice.preview import Preview
from accountant.display.approvals import cost_line
from accountant.display.numbers import counting_amounts, remaining_line
from accountant.display.reasons import REASONS
from accountant.display.reservations import SHORT_GRANT
from accountant.display.texts import shorten
from accountant.display.times import time_until
from accountant.views.datasets import DatasetView
from accountant.views.pending import PendingView


class WaitingRequest(NamedTuple):
    """A request that waits for approval.

    Attributes:
        short: the first digits of the hash `pending`.
        asked: a claim, or a question with its noise.
        reserve: how long it would be reserved, "" for one that is no reservation.
        cost: what its grant would cost now, with the share of the budget; "" where not known.
        left: what would then be left of the dataset.
        refusal: why it would be refused now, "" where it would be granted.
        until_in: in how long its deadline is.
        is_own: the viewer asks for it, or it is asked for the viewer.
    """

    pending: str
    short: str
    analyst: str
    via: str
    asked: str
    purpose: str
    reserve: str
    cost: str
    left: str
    refusal: str
    since: str
    until: str
    until_in: str
    is_own: bool


def waiting_request(
    view: DatasetView, asked: PendingView, preview: Preview | None, viewer: str, now: int
) -> WaitingRequest:
    """Return the row of a request that waits.

    Args:
        viewer: who looks, "" without authentication.
        now: milliseconds since 1970.
    """
    cost, left, refusal = "", "", ""
    if preview is not None:
        cost = cost_line(view, preview)
        if preview.granted:
            left = remaining_line(counting_amounts(preview.left, budget=view.budget))
        elif preview.reason is not None:
            refusal = REASONS[preview.reason].title
    return WaitingRequest(
        pending=asked.pending,
        short=asked.pending[:SHORT_GRANT],
        analyst=asked.analyst,
        via=asked.via or "",
        asked=shorten(asked.asked),
        purpose=shorten(asked.purpose),
        reserve=asked.reserve or "",
        cost=cost,
        left=left,
        refusal=refusal,
        since=asked.pending_at,
        until=asked.until,
        until_in=time_until(asked.until, now),
        is_own=viewer in {asked.analyst, asked.via},
    )
