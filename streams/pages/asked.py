"""Requests as a page shows them: why one was refused, what would fit, and when more comes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from accountant.claims import Claim
from accountant.claims.text import claim_text
from accountant.limits.wire import LevelLeft, LevelNamed
from accountant.records import DECODE_ERRORS, Decision
from accountant.records.outcomes import Outcome, Reason
from accountant.times import from_iso
from accountant.views.limit_views import LevelView, PaceView
from streams.pages.reasons import title, why
from streams.pages.words import (
    Moment,
    charged,
    cut,
    from_now,
    joined,
    moment,
    whose,
)

_LONG_CLAIM: Final = 80
_FITS: Final = frozenset({Reason.EXHAUSTED, Reason.ABOVE_CAP})
_SPENT: Final = "Waiting brings no more of it: "


class Asked(NamedTuple):
    """One request and its decision.

    Attributes:
        analyst, via: who asked, and through which engine; "" for none.
        claim: cut where it is long; `whole_claim` is not, and "" where nothing was cut.
        cost: of a grant what it was charged, of a refusal what it would have been.
        told: of a refusal the reason in a few words. `why`: by which limit, and what to do.
        fits: the largest of its kind that would have fitted; "" where nothing, or not said.
        left: what was left at each level, a line each.
        more_at, more_in: when more comes; `more` says it where no time can be told.
    """

    number: int
    request_id: str
    when: Moment
    analyst: str
    via: str
    claim: str
    whole_claim: str
    purpose: str
    granted: bool
    cost: str
    told: str
    why: str
    fits: str
    left: tuple[str, ...]
    more_at: Moment | None
    more_in: str
    more: str


class Refusal(NamedTuple):
    """What there is to say of a refusal, of a request or of a preview."""

    told: str
    why: str
    fits: str
    left: tuple[str, ...]
    more_at: Moment | None
    more_in: str
    more: str


NO_REFUSAL: Final = Refusal("", "", "", (), None, "", "")


class _Request(msgspec.Struct):
    """The fields of a request that are shown, of whichever version it is."""

    analyst: str = ""
    via: str = ""
    purpose: str = ""
    request_id: str = ""
    claim: msgspec.Raw = msgspec.Raw(b"")


_decode_request: Final = msgspec.json.Decoder(_Request).decode
_decode_claim: Final = msgspec.json.Decoder(Claim).decode


def asked(decision: Decision, levels: Sequence[LevelView], now: int) -> Asked:
    """Return a request's decision as it is shown.

    Args:
        levels: those that apply to its analyst, as they stand.
        now: milliseconds since 1970.
    """
    request = _request(decision)
    granted = decision.outcome is Outcome.GRANTED
    claim = _claim(request.claim)
    told = NO_REFUSAL
    if not granted and decision.reason is not None:
        told = refusal(
            decision.reason,
            decision.level,
            decision.left_at,
            decision.fits,
            paces=paces_of(levels),
            now=now,
            decided_at=from_iso(decision.decided_at),
        )
    cost = (decision.cost if granted else decision.asked) or {}
    counted = decision.left or cost
    return Asked(
        number=decision.sequence or 0,
        request_id=request.request_id,
        when=moment(decision.decided_at),
        analyst=request.analyst,
        via=request.via,
        claim=cut(claim, _LONG_CLAIM),
        whole_claim=claim if len(claim) > _LONG_CLAIM else "",
        purpose=cut(request.purpose),
        granted=granted,
        cost=charged({name: cost[name] for name in counted if name in cost}),
        **told._asdict(),
    )


def refusal(
    reason: Reason,
    level: LevelNamed | None,
    left_at: Sequence[LevelLeft],
    fits: str | None,
    *,
    paces: Mapping[tuple[str, str | None], PaceView],
    now: int,
    decided_at: int,
) -> Refusal:
    """Return a refusal in words.

    Args:
        paces: as they stand, by scope and name.
        now, decided_at: milliseconds since 1970.
    """
    more_at, more = None, ""
    if reason is Reason.EXHAUSTED:
        pace = paces.get((level.scope, level.name)) if level is not None else None
        if level is not None and level.what == "pace":
            more = "That pace was lifted since, or began anew: ask again."
            if pace is not None:
                more = "A new period has begun since: ask again."
            if not any(each.more_at for each in left_at if _is_of(each, level)):
                more = "A whole period has no room for it either: ask for less at a time."
            elif pace is not None and _is_same_period(pace, decided_at):
                more_at, more = moment(pace.ends_at), ""
        elif level is not None and level.what == "limit":
            more = f"{_SPENT}an owner would have to raise the limit."
        elif level is not None:
            more = f"{_SPENT}an owner would have to reserve less for others."
        else:
            more = f"{_SPENT}a dataset's budget is fixed."
    return Refusal(
        told=title(reason),
        why=why(reason, level),
        fits=(fits or "nothing of this kind") if reason in _FITS else "",
        left=tuple(_left(each) for each in left_at),
        more_at=more_at,
        more_in="" if more_at is None else from_now(more_at.iso, now),
        more=more,
    )


def _is_of(left: LevelLeft, level: LevelNamed) -> bool:
    return (left.scope, left.name) == (level.scope, level.name)


def _is_same_period(pace: PaceView, decided_at: int) -> bool:
    return from_iso(pace.begins_at) <= decided_at < from_iso(pace.ends_at)


def paces_of(levels: Sequence[LevelView]) -> dict[tuple[str, str | None], PaceView]:
    """Return the paces of some limits, by scope and name."""
    return {(each.scope, each.name): each.pace for each in levels if each.pace is not None}


def _request(decision: Decision) -> _Request:
    try:
        return _decode_request(decision.request)
    except DECODE_ERRORS:  # other things stand in these fields: an input that broke their rules
        return _Request()


def _claim(raw: msgspec.Raw) -> str:
    try:
        return claim_text(_decode_claim(raw))
    except DECODE_ERRORS:
        return ""


def _left(each: LevelLeft) -> str:
    said = [
        f"{joined(amounts, up=False)} {what}"
        for what, amounts in (("left", each.left), ("left in the period", each.pace_left))
        if amounts
    ]
    return f"{whose(each.scope, each.name)}: {', '.join(said)}"
