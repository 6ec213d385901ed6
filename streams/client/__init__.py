"""The client: `Accountant`, and `AsyncAccountant` for event loops.

They raise:
- RequestInvalid, Undecodable: the call is wrong; nothing was sent. UnknownDataset is a kind.
- Unanswered: no decision came; its `request_id` is to ask again with. It is an Unavailable.
- Unavailable: the ledger does not answer. NotYetAnswered is a kind.
- NotGranted: the request is refused. AnswerFailed: its question could not be run.
- Gone: the decisions are archived; the message says from where on they can be read.
- Refused: somebody must act. NoSuchLedger, UsedAfterFork, Unauthenticated, NotPermitted are kinds.
"""

from __future__ import annotations

from accountant.errors import RequestInvalid
from accountant.records.http_bodies import Me, Membership
from accountant.records.inputs import Undecodable
from accountant.records.members import Member
from streams.client._async.accountant import AsyncAccountant
from streams.client._async.owner import AsyncAdministrator, AsyncOwner
from streams.client._async.session import AsyncMechanismSession
from streams.client._sync.accountant import Accountant
from streams.client._sync.owner import Administrator, Owner
from streams.client._sync.session import MechanismSession
from streams.client.connection.connect import NoSuchLedger
from streams.client.connection.lookups import UnknownDataset
from streams.client.connection.shared_files import UsedAfterFork
from streams.client.questions.answers import AnswerFailed, NotYetAnswered, PrivateAnswer
from streams.client.questions.asked_question import AskedQuestion
from streams.client.releases.grants import Codec
from streams.client.releases.store import NameTaken, ResultMissing, ResultStore, StillRunning
from streams.client.requests.admin_requests import PolicyDiffers
from streams.client.requests.requests import Unanswered
from streams.client.sessions.session_record import OutOfOrder
from streams.client.unconfirmed import (
    EndsJointGuarantee,
    SecondDataset,
    SimilarDataset,
    SimilarName,
    SmallerLimit,
    SourceDiffers,
    TakesFromLifetime,
    Unconfirmed,
)
from streams.engines.scoped_claim import ScopedClaim
from streams.errors import (
    AccountantWarning,
    Gone,
    NoAnswers,
    NotPermitted,
    PassedOnToOwners,
    Refused,
    Unauthenticated,
    Unavailable,
)
from streams.replies.not_granted import NotGranted
from streams.replies.reply import Call, Reply

__all__ = [
    "Accountant",
    "AccountantWarning",
    "Administrator",
    "AnswerFailed",
    "AskedQuestion",
    "AsyncAccountant",
    "AsyncAdministrator",
    "AsyncMechanismSession",
    "AsyncOwner",
    "Call",
    "Codec",
    "EndsJointGuarantee",
    "Gone",
    "Me",
    "MechanismSession",
    "Member",
    "Membership",
    "NameTaken",
    "NoAnswers",
    "NoSuchLedger",
    "NotGranted",
    "NotPermitted",
    "NotYetAnswered",
    "OutOfOrder",
    "Owner",
    "PassedOnToOwners",
    "PolicyDiffers",
    "PrivateAnswer",
    "Refused",
    "Reply",
    "RequestInvalid",
    "ResultMissing",
    "ResultStore",
    "ScopedClaim",
    "SecondDataset",
    "SimilarDataset",
    "SimilarName",
    "SmallerLimit",
    "SourceDiffers",
    "StillRunning",
    "TakesFromLifetime",
    "Unanswered",
    "Unauthenticated",
    "Unavailable",
    "Unconfirmed",
    "Undecodable",
    "UnknownDataset",
    "UsedAfterFork",
]
