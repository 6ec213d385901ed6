"""What somebody sees of a dataset: all of it, what is theirs, or that there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from accountant.policy import Policy, sees_only_own
from accountant.records import DECODE_ERRORS, NO_REQUEST
from accountant.records.members import MemberRow, Role
from accountant.records.outcomes import Outcome
from accountant.records.served import served
from accountant.views.datasets import Alert, DatasetView
from accountant.views.population import with_joint
from streams.auth.principal import Principal, principal_of
from streams.http.context import Context, HttpRequest, context_of
from streams.service import LedgerService

_EVERYBODYS: Final = frozenset({Outcome.OPENED, Outcome.AMENDED, Outcome.CLOSED})
_SEES_ALL: Final[frozenset[Role]] = frozenset({"owner", "auditor"})


class Standing(NamedTuple):
    """What somebody sees of one dataset at one moment.

    Attributes:
        name: whose requests they see in any case, those made for them or by them for others.
        sees_all: every decision, and who is a member.
        sees_requests: what everybody has asked.
        team: theirs, None for none.
    """

    name: str
    sees_all: bool
    sees_requests: bool
    team: str | None = None


WHOLE: Final = Standing("", sees_all=True, sees_requests=True)
"""Of an administrator, and of everybody where a door knows nobody."""


class _Named(msgspec.Struct):
    member: str = ""


class DecisionLine(msgspec.Struct, tag_field="type", tag="decision"):
    """The fields of a decision that say whose it is."""

    outcome: Outcome
    dataset: str | None = None
    sequence: int | None = None
    member: _Named | None = None
    request: msgspec.Raw = NO_REQUEST


class _Asked(msgspec.Struct):
    """Who is named in an input, of whatever kind it is."""

    analyst: str = ""
    by: str = ""
    via: str = ""


decode_decision_line = msgspec.json.Decoder(DecisionLine).decode
_decode_asked = msgspec.json.Decoder(_Asked).decode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


def _asked(line: DecisionLine) -> _Asked:
    try:
        return _decode_asked(line.request)
    except DECODE_ERRORS:  # an input that is no request, or has other things in these fields
        return _Asked()


def sees_decision(standing: Standing, line: DecisionLine) -> bool:
    """Tell whether a decision on a dataset is shown to somebody who sees the dataset."""
    if standing.sees_all or line.outcome in _EVERYBODYS:
        return True
    if line.member is not None:
        return line.member.member == standing.name
    asked = _asked(line)
    if asked.analyst:
        return standing.sees_requests or standing.name in {asked.analyst, asked.via}
    return asked.by == standing.name


def sees_alert(standing: Standing, alert: Alert) -> bool:
    """Tell whether an alert on a dataset is shown to somebody who sees the dataset.

    What the dataset has crossed is everybody's; what a team has, its members' as well as those
    who see all; what an analyst has, their own.
    """
    if standing.sees_all or alert.scope in {None, "dataset"}:
        return True
    if alert.scope == "team":
        return alert.name == standing.team
    return standing.name == (alert.name if alert.analyst is None else alert.analyst)


def shown(standing: Standing, line: DecisionLine, value: bytes) -> bytes:
    """Return a decision that somebody sees, as doors answer it.

    An id that an engine used a second time may have been another's first: what that came to is
    left out for it, and with it the hash, which is of the whole.
    """
    told = served(value)
    is_conflict = line.outcome is Outcome.CONFLICT
    if not is_conflict or standing.sees_requests or _asked(line).analyst in {"", standing.name}:
        return told
    left = {name: raw for name, raw in _members(told).items() if name not in {"first", "hash"}}
    return _encode(left)


class Sight:
    """What the one who asks sees at this door, by the members that it knows of now.

    Args:
        who: None where the door knows nobody, and everybody sees all.

    Attributes:
        is_whole: every dataset is seen whole.
    """

    def __init__(self, context: Context, who: Principal | None) -> None:
        self.service: LedgerService = context.service
        self._clock = context.clock
        self.who = who
        self.is_whole = who is None or who.administrator

    def of(self, dataset: str, policy: Policy) -> Standing | None:
        """Return what is seen of a dataset that has a policy; None for nothing of it.

        Raises: Unavailable: the members are not known now.
        """
        who = self.who
        if who is None or who.administrator:
            return WHOLE
        row = self._in_force(dataset)
        roles = frozenset[Role]() if row is None else frozenset(row.roles)
        is_open = policy.access != "members"
        if not roles and not is_open:
            return None
        sees_all = not _SEES_ALL.isdisjoint(roles)
        # Where anybody may ask, everybody is an analyst.
        is_analyst = is_open or "analyst" in roles
        sees_requests = sees_all or (is_analyst and not sees_only_own(policy))
        team = None if row is None else (row.team or None)
        return Standing(who.name, sees_all, sees_requests, team)

    def roles(self, dataset: str) -> frozenset[Role]:
        """Return the roles on a dataset that are in force."""
        row = self._in_force(dataset)
        return frozenset() if row is None else frozenset(row.roles)

    def _in_force(self, dataset: str) -> MemberRow | None:
        assert self.who is not None
        row = self.service.member(dataset, self.who.name)
        return row if row is not None and row.is_in_force(self.now(dataset)) else None

    def sees_all_somewhere(self) -> bool:
        """Tell whether there is a dataset of which all is seen; to be called beside the loop."""
        if self.who is None or self.who.administrator:
            return True
        return any(not _SEES_ALL.isdisjoint(row.roles) for row in self.memberships())

    def now(self, dataset: str) -> int:
        """Return the time of a dataset's members, in milliseconds since 1970.

        Never before the log's own: where the clock of this machine was set back, nobody is let
        in again whose time was over when the last decision was made.
        """
        return max(self._clock.now(), self.service.decided_at(dataset))

    def memberships(self) -> list[MemberRow]:
        """Return what is in force of the one who asks; to be called beside the loop."""
        assert self.who is not None
        rows = self.service.memberships(self.who.name)
        return [row for row in rows if row.is_in_force(self.now(row.dataset))]

    async def at(self, dataset: str | None) -> Standing | None:
        """Return what is seen of whatever a decision is on; None for nothing of it."""
        if self.is_whole:
            return WHOLE
        found = None if dataset is None else await self.dataset(dataset)
        return None if found is None else found[1]

    async def dataset(self, name: str) -> tuple[DatasetView, Standing] | None:
        """Return a dataset with what is seen of it.

        None alike where it was never opened and where nothing of it is seen.
        """
        view = await self.service.dataset(name)
        standing = None if view is None else self.of(name, view.policy)
        return None if view is None or standing is None else (view, standing)

    def among(self, views: Iterable[DatasetView]) -> list[DatasetView]:
        """Return the datasets that are seen; to be called beside the loop where there are many."""
        return list(filter(self.sees, views))

    def sees(self, view: DatasetView) -> bool:
        """Tell whether anything of a dataset is seen."""
        return self.of(view.dataset, view.policy) is not None

    async def with_joint(self, shown: Sequence[DatasetView]) -> Sequence[DatasetView]:
        """Return datasets that are seen, each of a population with the joint guarantee of that.

        It counts all datasets of the population, for everybody alike: a sum of those alone that
        somebody sees would promise them what does not hold.
        """
        if not any(view.policy.population for view in shown):
            return shown
        every = await self.service.datasets()
        ordered = self.service.ordered_before()
        # Beside the loop: to go through very many takes longer than a decision may wait.
        return await asyncio.to_thread(with_joint, shown, every, self.sees, ordered=ordered)


def sight_of(request: HttpRequest) -> Sight:
    """Return what the one who asks sees."""
    return Sight(context_of(request), principal_of(request))
