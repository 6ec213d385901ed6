"""Sends the record of a form."""

from __future__ import annotations

from accountant.records import Decision, Source, decode_decision
from streams.gateway.submit import DEFAULT_WAIT_S
from streams.pages.dataset.form_data import FormRecord
from streams.service.ledger_service import LedgerService


async def send_record(
    service: LedgerService, record: FormRecord, source: Source = "admin"
) -> Decision | None:
    """Return the decision on a form's record, None while it is not decided.

    Args:
        source: the topic of the record.
    Raises: RequestInvalid. Unavailable.
    """
    answer = await service.submit(source, record.body, wait=DEFAULT_WAIT_S, checked=record.checked)
    return None if answer.decision is None else decode_decision(answer.decision)
