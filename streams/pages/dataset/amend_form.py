"""The form that changes a dataset's alerts, horizon, caps, approvals and access."""

from __future__ import annotations

import re
from typing import Any, Final

from accountant.errors import RequestInvalid
from streams.client.requests.admin_requests import amend_fields
from streams.pages.dataset.form_data import FormRecord, SentForm, admin_record, percent_ratio

AMENDMENT: Final = (
    *("alert_at", "horizon", "most_per_request", "approve_above", "approve_within"),
    *("open_per_holder", "access", "visibility", "reason", "by"),
)
_DAYS: Final = re.compile(r"[1-9][0-9]{0,4}")


def amend_record(sent: SentForm) -> FormRecord:
    """Return the record that amends a dataset; an empty field changes nothing.

    Raises: RequestInvalid: a field breaks a rule, or all are empty.
    """
    value = sent.form.values
    alerts = [each.strip() for each in value["alert_at"].split(",") if each.strip()]
    ratios = [percent_ratio({"alert_at": each}, "alert_at") for each in alerts]
    holder = value["open_per_holder"]
    if holder and not (holder.isascii() and holder.isdecimal() and len(holder) <= 6):
        raise RequestInvalid("open_per_holder", "must be a whole number, 0 for no limit", holder)
    try:
        fields: dict[str, Any] = amend_fields(
            alert_at=ratios or None,
            horizon=_days(sent, "horizon"),
            most_per_request=percent_ratio(value, "most_per_request"),
            policy=None,
            as_given=True,
            access=value["access"] or None,
            visibility=value["visibility"] or None,
            open_per_holder=int(holder) if holder else None,
            approve_above=percent_ratio(value, "approve_above"),
            approve_within=_days(sent, "approve_within"),
        )
    except RequestInvalid as error:
        is_empty = not any(value[name] for name in AMENDMENT if name not in {"reason", "by"})
        raise RequestInvalid("", "Nothing to change", "") if is_empty else error from None
    return admin_record("amend", sent, fields)


def _days(sent: SentForm, name: str) -> str | None:
    text = sent.form.values[name]
    if text and not _DAYS.fullmatch(text):
        raise RequestInvalid(name, "must be a whole number of days, such as 30", text)
    return f"P{text}D" if text else None
