"""What follows the opening of a dataset in another one's place: limits, pauses, members, access.

They are ordinary records. Their ids follow from the opening, so that whoever repeats them completes
what a first attempt has left undone, and changes nothing that it has done.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from accountant.display.pauses import paused_name
from accountant.policy import Access
from accountant.records.limit_records import Scope
from accountant.records.members import Member
from accountant.records.person_pauses import pause_of
from accountant.times import from_iso, uuid7
from accountant.views.datasets import DatasetView
from accountant.views.limit_views import ScopeView

_Known = dict[tuple[Scope, str | None], dict[str, object]]
_PAUSES: Final = ("pause", "resume")


class DatasetState(NamedTuple):
    """A dataset with its members and limits."""

    view: DatasetView
    members: Sequence[Member]
    limits: Sequence[ScopeView]


class Following(NamedTuple):
    """A record that follows.

    Attributes:
        kind, fields: of the record.
        what: it in words, for people.
    """

    kind: str
    fields: dict[str, object]
    what: str

    def id_after(self, opened: DatasetView) -> str:
        """Return its id, which follows from the opening of the dataset that it is about."""
        name = f"{opened.dataset} {opened.opened_at} {self.kind} {self.what}"
        return uuid7(from_iso(opened.opened_at), hashlib.sha256(name.encode()).digest()[:10])

    @property
    def may_be_sent_late(self) -> bool:
        """Whether it may be sent under another id, after the ledger has forgotten its own."""
        return self.kind not in _PAUSES


def following(old: DatasetState, new: DatasetState, access: Access, at: int) -> Iterator[Following]:
    """Yield what a dataset still lacks of another's, in the order in which it is to be sent.

    Limits come before members, so that nobody asks without the limits of their team, and pauses of
    persons too. An analyst's
    own limit needs the team, so it comes after them: the dataset is paused meanwhile.

    Args:
        access: who may ask in the end.
        at: milliseconds since 1970; memberships that are over by then stay behind.
    """
    limits = [each for each in old.limits if not each.analyst]
    known = {(each.scope, each.name): _limit_fields(each) for each in new.limits}
    own = [each for each in limits if each.scope == "analyst"]
    if own and not new.view.paused and _lacks(own, known):
        yield Following("pause", {}, "pause")
    yield from _limits([each for each in limits if each.scope != "analyst"], known)
    for pause in old.view.person_pauses:
        if pause_of(new.view.person_pauses, pause.member, pause.team) is None:
            target = {"member": pause.member, "team": pause.team, "reason": pause.reason}
            yield Following("pause_member", {**target}, f"pause of {paused_name(pause)}")
    members = {each.member: each for each in new.members}
    for member in old.members:
        if member.is_in_force(at) and members.get(member.member) != member:
            fields = msgspec.to_builtins(member)
            yield Following("member", fields, f"member {member.member}")
    yield from _limits(own, known)
    if access != "members" and new.view.policy.access == "members":
        yield Following("amend", {"access": access}, f"access {access}")
    if own:
        yield Following("resume", {}, "resume")


def lacking(old: DatasetState, new: DatasetState, at: int) -> list[str]:
    """Return which limits, members and pauses of a dataset another one does not have, in words.

    Args:
        at: as of `following`.
    """
    kinds = {"limit", "member", "pause_member"}
    return [each.what for each in following(old, new, "members", at) if each.kind in kinds]


def _lacks(limits: Sequence[ScopeView], known: _Known) -> bool:
    return any(known.get((each.scope, each.name)) != _limit_fields(each) for each in limits)


def _limits(limits: Sequence[ScopeView], known: _Known) -> Iterator[Following]:
    for each in limits:
        fields = _limit_fields(each)
        if known.get((each.scope, each.name)) != fields:
            what = f"limit of {each.scope} {each.name or ''}".rstrip()
            yield Following("limit", {"scope": each.scope, "name": each.name, **fields}, what)


def _limit_fields(limit: ScopeView) -> dict[str, object]:
    pace = limit.pace
    return {
        "part": limit.part,
        "policy": limit.policy,
        "pace": None if pace is None else {"part": pace.part, "period": pace.period},
        "reserved": None if limit.reserved is None else limit.reserved.part,
        "until": limit.until,
    }
