"""What an analyst's program imports: `Accountant`, and `AsyncAccountant` for event loops.

And what they raise: RequestInvalid and Undecodable, where nothing was sent; Unanswered, which is an
Unavailable with the id to ask again with; Unavailable; NoSuchLedger, which is a Refused; Refused.
"""

from __future__ import annotations

from accountant.errors import RequestInvalid
from accountant.records.inputs import Undecodable
from streams.client.accountant import Accountant
from streams.client.async_accountant import AsyncAccountant
from streams.client.connect import NoSuchLedger
from streams.client.requests import Unanswered
from streams.errors import Refused, Unavailable

__all__ = [
    "Accountant",
    "AsyncAccountant",
    "NoSuchLedger",
    "Refused",
    "RequestInvalid",
    "Unanswered",
    "Unavailable",
    "Undecodable",
]
