"""What a dataset's members may do; HTTP servers and `decide` apply the same rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import UNSET, UnsetType

from accountant.policy import Policy
from accountant.records import AdminRecord, Body, ReservationStep
from accountant.records.kinds import kind_of
from accountant.records.members import MemberRow, Role
from accountant.records.requests import AskMore, MechanismRequest, SetLimit, SetMember, Settle

Lookup = Callable[[str], MemberRow | None]
"""Returns the row of a dataset's member."""


class RequestParties(Protocol):
    """The analyst, and the engine that asks for the analyst."""

    @property
    def analyst(self) -> str: ...
    @property
    def via(self) -> str | UnsetType: ...


def may_ask(policy: Policy, lookup: Lookup, request: RequestParties, at: int) -> bool:
    """Tell whether the analyst of a request, and the engine that asks, have their roles.

    Args:
        at: milliseconds since 1970.
    """
    # An engine needs its role whatever the access: its requests count as another's.
    if request.via is not UNSET and not has_role(lookup, request.via, "engine", at):
        return False
    return policy.access != "members" or has_role(lookup, request.analyst, "analyst", at)


def may_run(policy: Policy, lookup: Lookup, step: ReservationStep, at: int) -> bool:
    """Tell whether a curator may begin or settle a question's reservation of an analyst.

    A curator names itself as `via`. To begin, the analyst must still have their role.

    Args:
        at: milliseconds since 1970.
    """
    if step.via is UNSET or "curator" not in kind_of(step).senders:
        return False
    if not has_role(lookup, step.via, "curator", at):
        return False
    if isinstance(step, Settle) or policy.access != "members":
        return True
    return has_role(lookup, step.analyst, "analyst", at)


def may_ask_more(policy: Policy, lookup: Lookup, ask: AskMore, at: int) -> bool:
    """Tell whether somebody may ask a dataset's owners for more.

    For access everybody may. For more of what they see they must see the dataset, and for a limit
    of a team be in it.

    Args:
        at: milliseconds since 1970.
    """
    row = lookup(ask.by)
    is_member = row is not None and row.is_in_force(at)
    if ask.team is not None:
        return row is not None and is_member and row.team == ask.team
    return is_member or ask.wants == "access" or policy.access != "members"


def may_decide(policy: Policy, lookup: Lookup, record: AdminRecord, at: int) -> bool:
    """Tell whether an owner's record may change a dataset, or somebody may ask for more of it.

    A record `as` an administrator is taken at its word: the HTTP server lets administrators alone
    send one.

    Args:
        at: milliseconds since 1970.
    """
    if isinstance(record, AskMore):
        return may_ask_more(policy, lookup, record, at)
    if has_role(lookup, record.by, "owner", at):
        return True
    return is_by_administrator(record)


def may_lead(policy: Policy, lookup: Lookup, record: AdminRecord, at: int) -> bool:
    """Tell whether a record is a lead's, about an analyst of the lead's own team.

    A lead adds names that are no member. Others it may touch only where their sole role is analyst
    and their team its own, so it never touches itself. Where everyone may ask, a membership does
    not admit but binds to the limits of a team, so owners alone set and remove it. Owners alone
    answer asks for more.

    Args:
        at: milliseconds since 1970.
    """
    if not isinstance(record, SetLimit | SetMember) or record.answers is not None:
        return False
    if not has_role(lookup, record.by, "lead", at):
        return False
    team = team_led(lookup(record.by))
    if isinstance(record, SetLimit):
        known = None if record.name is None else lookup(record.name)
        return record.scope == "analyst" and known is not None and known.is_analyst_of(team)
    if policy.access != "members":
        return False
    known = lookup(record.member)
    if known is not None and not known.is_analyst_of(team):
        return False
    return not record.roles or (record.roles == ("analyst",) and record.team == team)


def team_led(row: MemberRow | None) -> str:
    """Return the team that a membership with the role lead is of, "" for any other."""
    return row.team or "" if row is not None and "lead" in row.roles else ""


def may_send(policy: Policy, lookup: Lookup, record: Body, at: int) -> bool:
    """Tell whether the sender of a record has one of the roles that may send its kind.

    Args:
        at: milliseconds since 1970.
    """
    if not isinstance(record, MechanismRequest | ReservationStep):
        return may_decide(policy, lookup, record, at) or may_lead(policy, lookup, record, at)
    senders = kind_of(record).senders
    if "owner" in senders and has_role(lookup, record.analyst, "owner", at):
        return True
    if isinstance(record, ReservationStep) and may_run(policy, lookup, record, at):
        return True
    return may_ask(policy, lookup, record, at)


def is_by_administrator(record: Body) -> bool:
    """Tell whether a record names its sender as an administrator who acts for the owners."""
    return getattr(record, "as_", None) is not None


def has_role(lookup: Lookup, name: str, role: Role, at: int) -> bool:
    """Tell whether somebody has a role at a time, in milliseconds since 1970."""
    row = lookup(name)
    return row is not None and row.holds(role, at)
