"""What is asked of a ledger: an analyst's request, an owner's record."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from accountant.claims import Claim
from accountant.policy import Access, Neighbours, Policy, Visibility
from accountant.records.members import Role

Version = Literal[1]
Source = Literal["requests", "admin"]
"""The two inputs of a partition."""


class MechanismRequest(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="request"
):
    """An analyst asks to run one mechanism, or one batch of them.

    Attributes:
        request_id: UUIDv7; its time is the time of issue.
        analyst: opaque id of the analyst.
        claim: what the mechanism promises, for `unit` and `neighbours`.
        purpose: at most 200 characters, for people.
        via: the engine that asks for the analyst; left out where the analyst asks.
    """

    version: Version
    request_id: str
    analyst: str
    dataset: str
    claim: Claim
    unit: str
    neighbours: Neighbours
    purpose: str = ""
    via: str | UnsetType = UNSET


class _Admin(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type"):
    version: Version
    request_id: str
    dataset: str
    by: str


class Open(_Admin, frozen=True, tag="open"):
    """An owner opens a dataset under a policy.

    Attributes:
        owners: who may decide about the dataset from then on; left out, `by` alone.
    """

    policy: Policy
    reason: str = ""
    owners: tuple[str, ...] | UnsetType = UNSET


class Amend(_Admin, frozen=True, tag="amend"):
    """An owner changes thresholds, horizon, cap or access, or lowers the budget before any grant.

    Attributes:
        follows: number of the dataset's decision that this follows; any other one is refused.
        policy: the whole policy, with a budget that is lower and the same filter, unit and
            neighbours; without the fields beside it.
    """

    alert_at: tuple[str, ...] | None = None
    horizon: str | None = None
    reason: str = ""
    follows: int | None = None
    most_per_request: str | None = None
    policy: Policy | None = None
    access: Access | None = None
    visibility: Visibility | None = None


class Close(_Admin, frozen=True, tag="close"):
    """An owner closes a dataset: nothing more is granted.

    Attributes:
        follows: as of `Amend`.
    """

    reason: str = ""
    follows: int | None = None


class SetMember(_Admin, frozen=True, tag="member", rename={"as_": "as"}):
    """An owner, or an administrator, says what somebody may do on a dataset.

    Attributes:
        member: who; what was said of them before is replaced.
        roles: what they may do; none removes them.
        team: the one that they belong to in this dataset.
        until: the first moment at which it is over, as a time of the log.
        follows: as of `Amend`.
        as_: `administrator` where it is an administrator's help, not an owner's word; doors take
            it from administrators alone.
    """

    member: str
    roles: tuple[Role, ...]
    team: str | None = None
    until: str | None = None
    reason: str = ""
    follows: int | None = None
    as_: Literal["administrator"] | None = None


AdminRecord = Open | Amend | Close | SetMember
Body = MechanismRequest | AdminRecord
