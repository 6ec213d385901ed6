"""The error for a request that is not granted."""

from __future__ import annotations

from accountant.display.requested import requested_words
from accountant.errors import BudgetError
from streams.notebooks.display import remaining_words
from streams.replies.reply import Reply


class NotGranted(BudgetError):
    """The ledger did not grant the request, so nothing may run. The message says why.

    Attributes:
        reply: the ledger's reply.
        reason: the reason code, or the outcome if there is none.
        fits: the largest claim of its kind that would be granted, None if unknown.
        request_id: of the request.
    """

    def __init__(self, reply: Reply, *, then: str = "") -> None:
        self.reply = reply
        first = reply.first if reply.repeated else None
        decision_shown = reply if first is None or first.granted else first
        self.reason = str(decision_shown.reason or decision_shown.outcome)
        self.fits = reply.fits
        self.request_id = reply.request_id
        remaining = remaining_words(reply.decision)
        asked = requested_words(reply.decision) if reply.fits else ""
        parts = (
            f"{reply.dataset or 'the request'} not granted: {self.reason}.",
            reply.why,
            f"You asked for {asked}." if asked else "",
            f"This would fit: {reply.fits}." if reply.fits else "",
            reply.waiting,
            f"The dataset has {remaining}." if remaining else "",
            then,
        )
        super().__init__(" ".join(each for each in parts if each))
