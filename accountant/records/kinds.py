"""The kinds of record, each declared once: what lists kinds of record follows from this table.

The core's rule for a kind is found by its type, and words for people by its name; tests compare
those tables with this one.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from accountant.records.outcomes import Outcome
from accountant.records.requests import (
    Amend,
    Approve,
    AskMore,
    Begin,
    Body,
    Close,
    DeclineAsk,
    Deny,
    Label,
    MechanismRequest,
    Open,
    Pause,
    PauseMember,
    RecordRelease,
    Remark,
    Renew,
    Resolve,
    Resume,
    ResumeMember,
    SetBudget,
    SetLimit,
    SetMember,
    Settle,
    Source,
    Void,
)

Sender = Literal["analyst", "anybody", "curator", "owner", "lead"]
"""A role whose holders may send a record. An engine sends an analyst's, under its own name.

What `anybody` may ask for, `permits.may_ask_more` says.
"""


class RecordKind(NamedTuple):
    """One kind of record.

    Attributes:
        body: its type; the tag is the record's `type` on the wire.
        source: the input that takes it.
        senders: who may send it. Who may open a dataset, an HTTP server's settings say.
        does: what the sender does, in words: `An administrator pauses`.
        outcomes: of one that is applied; of an answer to a request they are the request's.
        operation: the HTTP operation that takes it.
        group: of that operation in the OpenAPI document.
        path: the end of its address below the dataset's; None for an address of its own.
        asks_back: a server may ask the sender whether it is meant.
        sets: the fields of `DatasetFacts` that it sets to its fields of the same names, those that
            are unset apart.
    """

    body: type[Body]
    source: Source
    senders: frozenset[Sender]
    does: str
    outcomes: tuple[Outcome, ...]
    operation: str
    group: Literal["requests", "datasets", "access"]
    path: str | None
    asks_back: bool = False
    sets: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its `type` on the wire."""
        return str(self.body.__struct_config__.tag)

    @property
    def allows_administrator(self) -> bool:
        """Whether an administrator may send it for the owners, by its field `as`."""
        return "as_" in self.body.__struct_fields__


_ANYBODY: Final = frozenset[Sender]({"anybody"})
_ANALYST: Final = frozenset[Sender]({"analyst"})
_CURATOR: Final = frozenset[Sender]({"analyst", "curator"})
_VOIDER: Final = frozenset[Sender]({"analyst", "owner"})
_OWNER: Final = frozenset[Sender]({"owner"})
_LEAD: Final = frozenset[Sender]({"owner", "lead"})

KINDS: Final = (
    RecordKind(
        body=MechanismRequest,
        source="requests",
        senders=_ANALYST,
        does="asks",
        outcomes=(
            Outcome.GRANTED,
            Outcome.RESERVED,
        ),
        operation="submit_request",
        group="requests",
        path=None,
    ),
    RecordKind(
        body=Begin,
        source="requests",
        senders=_CURATOR,
        does="begins a reservation",
        outcomes=(Outcome.BEGUN,),
        operation="begin_reservation",
        group="requests",
        path="reservations/begin",
    ),
    RecordKind(
        body=Settle,
        source="requests",
        senders=_CURATOR,
        does="settles a reservation",
        outcomes=(Outcome.SETTLED,),
        operation="settle_reservation",
        group="requests",
        path="reservations/settle",
    ),
    RecordKind(
        body=Void,
        source="requests",
        senders=_VOIDER,
        does="voids a reservation",
        outcomes=(Outcome.VOIDED,),
        operation="void_reservation",
        group="requests",
        path="reservations/void",
    ),
    RecordKind(
        body=Open,
        source="admin",
        senders=_OWNER,
        does="opens a dataset",
        outcomes=(Outcome.OPENED,),
        operation="open_dataset",
        group="datasets",
        path=None,
        asks_back=True,
        sets=("schema", "spent"),
    ),
    RecordKind(
        body=Amend,
        source="admin",
        senders=_OWNER,
        does="amends",
        outcomes=(Outcome.AMENDED,),
        operation="amend_dataset",
        group="datasets",
        path="amend",
    ),
    RecordKind(
        body=Close,
        source="admin",
        senders=_OWNER,
        does="closes",
        outcomes=(Outcome.CLOSED,),
        operation="close_dataset",
        group="datasets",
        path="close",
    ),
    RecordKind(
        body=Renew,
        source="admin",
        senders=_OWNER,
        does="renews",
        outcomes=(Outcome.RENEWED,),
        operation="renew_dataset",
        group="datasets",
        path="renew",
        sets=("renewed_as",),
    ),
    RecordKind(
        body=Pause,
        source="admin",
        senders=_OWNER,
        does="pauses",
        outcomes=(Outcome.PAUSED,),
        operation="pause_dataset",
        group="datasets",
        path="pause",
    ),
    RecordKind(
        body=Resume,
        source="admin",
        senders=_OWNER,
        does="resumes",
        outcomes=(Outcome.RESUMED,),
        operation="resume_dataset",
        group="datasets",
        path="resume",
    ),
    RecordKind(
        body=Label,
        source="admin",
        senders=_OWNER,
        does="labels",
        outcomes=(
            Outcome.LABEL_SET,
            Outcome.LABEL_REMOVED,
        ),
        operation="label_dataset",
        group="datasets",
        path="label",
        sets=("label",),
    ),
    RecordKind(
        body=Remark,
        source="admin",
        senders=_OWNER,
        does="remarks on a decision",
        outcomes=(Outcome.REMARKED,),
        operation="remark_on_decision",
        group="datasets",
        path="remark",
    ),
    RecordKind(
        body=SetBudget,
        source="admin",
        senders=_OWNER,
        does="sets the budget in force",
        outcomes=(Outcome.BUDGET_SET,),
        operation="set_budget",
        group="datasets",
        path="budget",
    ),
    RecordKind(
        body=RecordRelease,
        source="admin",
        senders=_OWNER,
        does="records releases made elsewhere",
        outcomes=(Outcome.RECORDED,),
        operation="record_release",
        group="datasets",
        path="record",
        asks_back=True,
    ),
    RecordKind(
        body=AskMore,
        source="admin",
        senders=_ANYBODY,
        does="asks for more",
        outcomes=(Outcome.MORE_ASKED,),
        operation="ask_for_more",
        group="access",
        path="more",
    ),
    RecordKind(
        body=DeclineAsk,
        source="admin",
        senders=_OWNER,
        does="declines asks",
        outcomes=(Outcome.MORE_DECLINED,),
        operation="decline_ask",
        group="access",
        path="more/decline",
    ),
    RecordKind(
        body=Resolve,
        source="admin",
        senders=_OWNER,
        does="resolves a reservation",
        outcomes=(Outcome.RESOLVED,),
        operation="resolve_reservation",
        group="datasets",
        path="resolve",
    ),
    RecordKind(
        body=Approve,
        source="admin",
        senders=_OWNER,
        does="approves a request",
        outcomes=(),
        operation="approve_request",
        group="requests",
        path="approve",
    ),
    RecordKind(
        body=Deny,
        source="admin",
        senders=_OWNER,
        does="denies a request",
        outcomes=(),
        operation="deny_request",
        group="requests",
        path="deny",
    ),
    RecordKind(
        body=SetMember,
        source="admin",
        senders=_LEAD,
        does="sets members",
        outcomes=(
            Outcome.MEMBER_SET,
            Outcome.MEMBER_REMOVED,
        ),
        operation="set_member",
        group="access",
        path="members",
        asks_back=True,
    ),
    RecordKind(
        body=PauseMember,
        source="admin",
        senders=_OWNER,
        does="pauses persons and teams",
        outcomes=(Outcome.MEMBER_PAUSED,),
        operation="pause_member",
        group="access",
        path="members/pause",
        asks_back=True,
    ),
    RecordKind(
        body=ResumeMember,
        source="admin",
        senders=_OWNER,
        does="resumes persons and teams",
        outcomes=(Outcome.MEMBER_RESUMED,),
        operation="resume_member",
        group="access",
        path="members/resume",
    ),
    RecordKind(
        body=SetLimit,
        source="admin",
        senders=_LEAD,
        does="sets limits",
        outcomes=(
            Outcome.LIMIT_SET,
            Outcome.LIMIT_REMOVED,
        ),
        operation="set_limit",
        group="datasets",
        path="limits",
        asks_back=True,
    ),
)
_BY_BODY: Final = {kind.body: kind for kind in KINDS}


def kind_of(body: Body) -> RecordKind:
    """Return the kind of a record."""
    return _BY_BODY[type(body)]


REQUEST: Final = _BY_BODY[MechanismRequest]
OPENING: Final = _BY_BODY[Open]
