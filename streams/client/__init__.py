"""What an analyst's program imports: `Accountant`, and `AsyncAccountant` for event loops.

And what they raise: RequestInvalid and Undecodable, where nothing was sent; Unanswered, which is an
Unavailable with the id to ask again with; Unavailable; Gone, which says from where on decisions can
be read; Refused, and of its kind NoSuchLedger, UsedAfterFork, Unauthenticated and NotPermitted.
"""

from __future__ import annotations

from accountant.errors import RequestInvalid
from accountant.records.http_bodies import Me, Membership
from accountant.records.inputs import Undecodable
from accountant.records.members import Member
from streams.client.accountant import Accountant
from streams.client.admin_requests import PolicyDiffers
from streams.client.async_accountant import AsyncAccountant
from streams.client.connect import NoSuchLedger
from streams.client.grants import Codec, NotGranted
from streams.client.reply import Call, Reply
from streams.client.requests import ScopedClaim, Unanswered
from streams.client.results.store import NameTaken, ResultMissing, ResultStore, StillRunning
from streams.client.shared_files import UsedAfterFork
from streams.errors import (
    AccountantWarning,
    Gone,
    NotPermitted,
    Refused,
    Unauthenticated,
    Unavailable,
)

__all__ = [
    "Accountant",
    "AccountantWarning",
    "AsyncAccountant",
    "Call",
    "Codec",
    "Gone",
    "Me",
    "Member",
    "Membership",
    "NameTaken",
    "NoSuchLedger",
    "NotGranted",
    "NotPermitted",
    "PolicyDiffers",
    "Refused",
    "Reply",
    "RequestInvalid",
    "ResultMissing",
    "ResultStore",
    "ScopedClaim",
    "StillRunning",
    "Unanswered",
    "Unauthenticated",
    "Unavailable",
    "Undecodable",
    "UsedAfterFork",
]
