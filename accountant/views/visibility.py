"""What a caller sees of a dataset: all of it, what is theirs, or that there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from accountant.partition.ids import analyst_charged
from accountant.policy import Policy, sees_only_own
from accountant.records.header import DecisionHeader, PausedName
from accountant.records.http_bodies import served_decision
from accountant.records.limit_records import (
    LimitName,
    LimitRecord,
    LimitUpdate,
    ReachedLimit,
    Scope,
)
from accountant.records.members import MemberRow, Role
from accountant.records.outcomes import Outcome
from accountant.records.parts import by_dataset
from accountant.records.person_pauses import PersonPause
from accountant.records.request_names import names_in_request
from accountant.views.datasets import Alert, DatasetView
from accountant.views.limit_views import ScopeView
from accountant.views.why import Why, own_rows, rows_of_team, without_members

SEES_ALL: Final[frozenset[Role]] = frozenset({"owner", "auditor"})
"""Roles that see all of a dataset."""
READS_OTHERS: Final[frozenset[Role]] = SEES_ALL | {"lead"}
"""Roles that show others' requests."""


class LedTeam(NamedTuple):
    """The team that a caller leads on a dataset. Its members are those of now.

    Attributes:
        member: returns a person's membership of a dataset.
    """

    dataset: str
    name: str
    member: Callable[[str, str], MemberRow | None]

    def has(self, name: str | None) -> bool:
        """Tell whether somebody is of the team, also after the end of the membership."""
        return name is not None and self._row(name) is not None

    def has_since(self, name: str, sequence: int | None) -> bool:
        """Tell whether a decision is not older than the membership of somebody in the team.

        What somebody asked before may be another team's: a lead would read it by adding a former
        member of that team.

        Args:
            sequence: number of the decision in the dataset, None for one without.
        """
        row = self._row(name)
        return row is not None and sequence is not None and sequence >= row.sequence

    def has_limit(self, view: ScopeView) -> bool:
        """Tell whether a limit is the team's, one of its analysts', or that of the dataset."""
        if view.scope == "dataset":
            return True
        return self.has(view.name) if view.scope == "analyst" else view.name == self.name

    def _row(self, name: str) -> MemberRow | None:
        row = self.member(self.dataset, name)
        return row if row is not None and row.team == self.name else None


class DatasetAccess(NamedTuple):
    """What a caller sees of one dataset at one moment.

    Attributes:
        name: the caller, who always sees their own requests, and those made for others.
        sees_all: every decision and member.
        sees_requests: what everybody has asked.
        team: theirs, None for none.
        leads: the team whose requests, use and limits they see as its lead, None for none.
    """

    name: str
    sees_all: bool
    sees_requests: bool
    team: str | None = None
    leads: LedTeam | None = None

    @property
    def reads_others(self) -> bool:
        """Whether a role shows them what others ask."""
        return self.sees_all or self.leads is not None

    def is_shown(self, name: str | None) -> bool:
        """Tell whether membership, limits and pause of somebody are shown."""
        return self.sees_all or name == self.name or self._leads(name)

    def _leads(self, name: str | None) -> bool:
        return self.leads is not None and self.leads.has(name)

    def lists(self, analyst: str, via: str | None, sequence: int | None) -> bool:
        """Tell whether a request is among those that concern the caller.

        Args:
            analyst, via: of the request; the caller may be either.
            sequence: number of its decision in the dataset, None for one without.
        """
        if self.sees_all or self.name in {analyst, via}:
            return True
        return self.leads is not None and self.leads.has_since(analyst, sequence)


WHOLE: Final = DatasetAccess("", sees_all=True, sees_requests=True)
"""Of an administrator, and of everybody where authentication is off."""


class Caller(NamedTuple):
    """An authenticated caller of a server."""

    name: str
    is_administrator: bool = False


def access_of(
    caller: Caller | None,
    policy: Policy,
    row: MemberRow | None,
    member: Callable[[str, str], MemberRow | None] = lambda _, __: None,
) -> DatasetAccess | None:
    """Return what a caller sees of a dataset that has a policy; None for nothing of it.

    Args:
        caller: None without authentication, where everybody sees all.
        row: the caller's membership that is in force.
        member: returns anybody's membership of a dataset.
    """
    if caller is None or caller.is_administrator:
        return WHOLE
    roles = frozenset[Role]() if row is None else frozenset(row.roles)
    is_open = policy.access != "members"
    if not roles and not is_open:
        return None
    sees_all = not SEES_ALL.isdisjoint(roles)
    # Where access is open, every caller is an analyst.
    is_analyst = is_open or "analyst" in roles
    sees_requests = sees_all or (is_analyst and not sees_only_own(policy))
    team = None if row is None else (row.team or None)
    leads = None
    if row is not None and team is not None and "lead" in roles:
        leads = LedTeam(row.dataset, team, member)
    return DatasetAccess(caller.name, sees_all, sees_requests, team, leads)


_OTHERS: Final = b'"other_datasets"'
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_limits = msgspec.json.Decoder(list[msgspec.Raw]).decode
_place = msgspec.json.Decoder(LimitName).decode
_encode = msgspec.json.Encoder().encode


def sees_decision(access: DatasetAccess, line: DecisionHeader) -> bool:
    """Tell whether a decision on a dataset is shown to somebody who sees the dataset."""
    if access.sees_all or line.outcome.is_public:
        return True
    if line.member is not None:
        return line.member.member == access.name or _leads_member(access, line)
    if line.pause is not None and line.outcome.pauses_person and _sees_pause(access, line.pause):
        return True
    if line.reservation is not None and access.lists(line.reservation.analyst, "", line.sequence):
        return True  # an owner may void a reservation of theirs
    if line.answers is not None and line.limit is not None and _is_of(access, line.limit):
        return True  # an owner accepts their ask for a larger limit, or one of their team
    asked = names_in_request(line.request)
    if line.answers is not None and asked.asker == access.name:
        return True
    if asked.analyst:
        return access.sees_requests or access.lists(asked.analyst, asked.via, line.sequence)
    return asked.by == access.name


def _is_of(access: DatasetAccess, limit: LimitRecord) -> bool:
    """Tell whether a limit is a caller's own, or of a team that they lead."""
    if limit.scope == "team":
        return access.leads is not None and limit.name == access.leads.name
    return limit.name == access.name


def _leads_member(access: DatasetAccess, line: DecisionHeader) -> bool:
    """Tell whether a lead has set a member, or sees that one was set in the team."""
    leads, member = access.leads, line.member
    if leads is None or member is None:
        return False
    if leads.has_since(member.member, line.sequence):
        return True
    return names_in_request(line.request).by == access.name


def _sees_pause(access: DatasetAccess, pause: PausedName | PersonPause) -> bool:
    """Tell whether a pause is somebody's own, or their team's, or a lead's analyst's."""
    if pause.member is not None:
        return access.is_shown(pause.member)
    return pause.team is not None and pause.team == access.team


def visible_view(access: DatasetAccess, view: DatasetView) -> DatasetView:
    """Return a dataset as it is shown to somebody: without the pauses of others."""
    if access.sees_all or not view.person_pauses:
        return view
    own = tuple([each for each in view.person_pauses if _sees_pause(access, each)])
    return msgspec.structs.replace(view, person_pauses=own)


def sees_answer(access: DatasetAccess, analyst: str) -> bool:
    """Tell whether an answer to an analyst is shown to somebody who sees its dataset."""
    return access.sees_requests or access.name == analyst  # a lead reads requests, not answers


def sees_answer_of(access: DatasetAccess, line: DecisionHeader) -> bool:
    """Tell whether the answer to a decision's request is shown to somebody who sees its dataset.

    An engine reads what it asked for others, a lead no answer to the team.
    """
    return sees_decision(access._replace(leads=None), line)


def sees_alert(access: DatasetAccess, alert: Alert) -> bool:
    """Tell whether an alert on a dataset is shown to somebody who sees the dataset.

    Everybody sees the dataset's alerts, a team's members those of the team, an analyst their own
    and those of their own requests, a lead those of the team's analysts, too. Asks are for owners
    and auditors.
    """
    if alert.approval is not None:
        return alert.analyst is not None and access.is_shown(alert.analyst)
    if alert.ask is not None:
        return access.sees_all
    return access.sees_all or _sees_limit(access, alert.scope, alert.name, alert.analyst)


def _sees_limit(
    access: DatasetAccess, scope: Scope | None, name: str | None, analyst: str | None
) -> bool:
    if scope in {None, "dataset"}:
        return True
    if scope == "team":
        return name == access.team
    return access.is_shown(name if analyst is None else analyst)


def redact_decision(
    access: DatasetAccess, line: DecisionHeader, value: bytes, digest: bytes | None = None
) -> bytes:
    """Return a decision as servers show it to a caller.

    An engine may reuse an id that was another analyst's first: the first decision is left out
    then, and with it the hash, which covers the whole. Thresholds of limits are left out as their
    alerts are, see `sees_alert`.

    Args:
        digest: SHA-256 of the value, where it is known.
    """
    if line.part_of is not None or _hides_datasets(access, line):
        return _redact_part(access, line, value)
    body = served_decision(value, digest)
    if _hides_alerts(access, line):
        members = _members(body)
        _drop_alerts(access, line, members)
        return _encode(members)
    is_conflict = line.outcome is Outcome.CONFLICT
    if (
        not is_conflict
        or access.sees_requests
        or names_in_request(line.request).analyst in {"", access.name}
    ):
        return body
    left = {name: raw for name, raw in _members(body).items() if name not in {"first", "hash"}}
    return _encode(left)


def _hides_alerts(access: DatasetAccess, line: DecisionHeader) -> bool:
    """Tell whether a decision may say of limits what their alerts would not show to a caller.

    This does not depend on whether it says so: a missing hash would reveal that.
    """
    if access.sees_all:
        return False
    if line.outcome.reports_limits:
        return True
    if not line.levels:
        return False
    names = names_in_request(line.request)
    if access.name in {names.analyst, names.via}:
        return False
    return not all(_sees_limit(access, *_limit_of(line, each)) for each in line.levels)


def _limit_of(
    line: DecisionHeader, each: LimitUpdate | ReachedLimit
) -> tuple[Scope, str | None, str | None]:
    analyst = each.analyst if isinstance(each, ReachedLimit) else analyst_charged(line)
    return each.scope, each.name, analyst if each.scope == "each" else None


def _drop_alerts(
    access: DatasetAccess, line: DecisionHeader, members: dict[str, msgspec.Raw]
) -> None:
    """Drop what a decision says of thresholds that a caller must not see, and the hash."""
    for name in ("hash", "more_reached", "more_shares_cut"):
        members.pop(name, None)
    if line.outcome.charges_team:
        _drop_limits(access, members)
        return
    if line.reached:
        shown = [each for each in line.reached if _sees_limit(access, *_limit_of(line, each))]
        members.pop("reached")
        if shown:
            members["reached"] = msgspec.Raw(_encode(shown))
    if line.levels:
        levels = [
            each
            if _sees_limit(access, *_limit_of(line, each))
            else msgspec.structs.replace(each, crossed=(), spent_ratio=None)
            for each in line.levels
        ]
        members["levels"] = msgspec.Raw(_encode(levels))


def _drop_limits(access: DatasetAccess, members: dict[str, msgspec.Raw]) -> None:
    """Drop the limits that a decision which everybody sees charges or cuts, but for one's own."""
    for name in ("levels", "shares_cut"):
        limits = _limits(members.pop(name, msgspec.Raw(b"[]")))
        shown = [raw for raw in limits if _sees_limit(access, *_decode_place(raw), None)]
        if shown:
            members[name] = msgspec.Raw(_encode(shown))


def _decode_place(raw: msgspec.Raw) -> tuple[Scope, str | None]:
    place = _place(raw)
    return place.scope, place.name


def _hides_datasets(access: DatasetAccess, line: DecisionHeader) -> bool:
    """Tell whether a decision must not name a request's other datasets: they may be hidden.

    Only its sender and administrators see them, and whoever sees the decision in all of them.
    """
    if line.parts or access == WHOLE:
        return False
    if line.part_of is None and _OTHERS not in bytes(line.request):
        return False
    names = names_in_request(line.request)
    if not names.grant:
        return access.name not in {names.analyst, names.via}
    # A step names the reservation's first dataset. An owner may send one for its holder.
    holder = None if line.reservation is None else line.reservation.analyst
    return holder is None or names.analyst != holder or access.name not in {holder, names.via}


def _redact_part(access: DatasetAccess, line: DecisionHeader, value: bytes) -> bytes:
    """Return a decision as one of its datasets sees it, without a hash: that covers the whole."""
    members = _members(served_decision(value))
    members.pop("hash", None)
    if _hides_alerts(access, line):
        _drop_alerts(access, line, members)
    if _hides_datasets(access, line):
        request = _members(line.request)
        request.pop("other_datasets", None)
        request["dataset"] = msgspec.Raw(_encode(line.dataset))
        members["request"] = msgspec.Raw(_encode(request))
        if line.refused_by != line.dataset:
            members.pop("refused_by", None)
    return _encode(members)


def is_shown_whole(line: DecisionHeader, access_of: Callable[[str], DatasetAccess | None]) -> bool:
    """Tell whether a decision over several datasets is shown with all of them to a caller.

    Args:
        access_of: returns the caller's access to a dataset, None without any.
    """
    accesses = [(part, access_of(str(part.dataset))) for part in by_dataset(line)]
    return all(access is not None and sees_decision(access, part) for part, access in accesses)


def visible_limits(access: DatasetAccess, limits: Sequence[ScopeView]) -> Sequence[ScopeView]:
    """Return a dataset's limits that a caller sees by a role: all, those of a led team, or none."""
    if access.sees_all:
        return limits
    return [each for each in limits if access.leads is not None and access.leads.has_limit(each)]


def visible_why(why: Why, access: DatasetAccess) -> Why:
    """Return the part of a report that a caller may see."""
    if access.sees_all:
        return why
    if access.leads is not None:
        names = {row.analyst for row in why.by_analyst if access.is_shown(row.analyst)}
        seen = why if access.sees_requests else own_rows(why, access.name)
        return rows_of_team(why, seen, access.leads.name, names | {access.name})
    if access.sees_requests:
        return without_members(why, access.name)
    return own_rows(why, access.name)
