"""Requests on a page: why one was refused, what would fit, and when more is available."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final, Literal, NamedTuple

import msgspec

from accountant.advice.preview import Preview
from accountant.claims import Claim
from accountant.display.current_dataset import CurrentDataset, owner_words
from accountant.display.endings import ending_words
from accountant.display.limits import left_at_words
from accountant.display.numbers import Texts, counting_cost, spent_line
from accountant.display.reasons import REASONS
from accountant.display.refusals import MoreAvailable, refusal_words, when_more
from accountant.display.requested import fitting_words, requested_words
from accountant.display.texts import shorten
from accountant.display.times import time_until
from accountant.questions import Noise, Question, Stop, noise_text, question_text, stop_text
from accountant.records import DECODE_ERRORS, Decision
from accountant.records.asks import AskKind
from accountant.records.limit_records import Scope
from accountant.records.outcomes import Outcome, Reason
from accountant.records.request_names import decode_remark
from accountant.times import from_iso
from accountant.views.limit_views import PeriodLimitView, ScopeView

_LONG_CLAIM: Final = 80
_COST_LABELS: Final = {
    "refused": "would cost",
    "pending": "would cost",
    "reserved": "holds at most",
    "begun": "holds at most",
    "voided": "gave back",
}
_FITS: Final = frozenset({Reason.EXHAUSTED, Reason.ABOVE_CAP})


class RefusalText(NamedTuple):
    """The explanation of a refusal, of a request or of a preview.

    Attributes:
        title: the reason in a few words. `why`: the limit, and what to do.
        fits: the largest claim of its kind that would have fitted, "" if unknown.
        left: what was left at each limit, a line each.
        more: when more is available, None if that does not apply. `more_in`: in how long.
        wants: what to ask owners for, so that it would fit; "" where an ask would not help.
    """

    title: str
    why: str
    fits: str
    left: tuple[str, ...]
    more: MoreAvailable | None
    more_in: str
    wants: str = ""


class RemarkText(NamedTuple):
    """An owner's remark on a decision."""

    text: str
    by: str
    when: str


class RequestRow(NamedTuple):
    """One request and its decision.

    Attributes:
        analyst, via: the analyst and the engine, "" for none.
        claim: shortened if it is long; then `whole_claim` is the whole one, else "".
        outcome: `granted`, `refused` or `pending`; of a reservation its last step; `lapsed` of one
            that was not begun, or of a request that nobody approved in time.
        cost: an amount, and `cost_label` what of it: what a grant cost, what a reservation holds or
            has cost in the end, or what one that is refused or waits would have cost.
        ends: which filter a grant has ended, or the claim that would fit would end; "" for none.
        refusal: None for any other.
        question: with its noise, as text; "" for a request that states a claim.
        remarks: owners' remarks on it, the newest first.
    """

    number: int
    request_id: str
    when: str
    analyst: str
    via: str
    claim: str
    whole_claim: str
    purpose: str
    outcome: str
    cost: str
    cost_label: str
    ends: str
    refusal: RefusalText | None
    question: str = ""
    remarks: tuple[RemarkText, ...] = ()


class _RequestColumns(msgspec.Struct):
    """The displayed fields of a request of any version."""

    analyst: str = ""
    via: str = ""
    purpose: str = ""
    request_id: str = ""
    question: Question | None = None
    noise: Noise | None = None
    stop: Stop | None = None


_decode_request: Final = msgspec.json.Decoder(_RequestColumns).decode


def request_row(
    decision: Decision,
    levels: Sequence[ScopeView],
    now: int,
    current: CurrentDataset | None = None,
    *,
    step: Decision | None = None,
    is_open: bool = True,
    remarks: Sequence[Decision] = (),
) -> RequestRow:
    """Return the row of a request and its decision.

    Args:
        levels: the current limits of its analyst.
        now: milliseconds since 1970.
        current: the dataset.
        step: the last step of a reservation. `is_open`: it holds what it was charged.
        remarks: on it, the newest first.
    """
    request = _request(decision)
    granted = decision.outcome.charges
    claim = requested_words(decision)
    decided_at = from_iso(decision.decided_at)
    refused = None if granted else refusal(decision, levels, now, decided_at, current)
    outcome, cost = _outcome_and_cost(decision, step, now, is_open=is_open)
    return RequestRow(
        number=decision.sequence or 0,
        request_id=request.request_id,
        when=decision.decided_at,
        analyst=request.analyst,
        via=request.via,
        claim=shorten(claim, _LONG_CLAIM),
        whole_claim=claim if len(claim) > _LONG_CLAIM else "",
        purpose=shorten(request.purpose),
        outcome=outcome,
        cost=spent_line(counting_cost(cost, decision.left, decision.totals)),
        cost_label="would cost" if decision.outcome.waits else _COST_LABELS.get(outcome, "cost"),
        ends=ending_words(decision, None if current is None else current.view.policy),
        refusal=refused,
        question=_question_line(request),
        remarks=tuple(map(_remark_text, remarks)),
    )


def _remark_text(decision: Decision) -> RemarkText:
    record = decode_remark(decision.request)
    return RemarkText(record.remark, record.by, decision.decided_at)


def _outcome_and_cost(
    decision: Decision, step: Decision | None, now: int, *, is_open: bool
) -> tuple[str, Texts]:
    """Return what has become of a request, and the amounts that go with it."""
    if decision.outcome.waits:
        over = decision.pending is not None and from_iso(decision.pending.until) <= now
        return "lapsed" if over else decision.outcome.value, decision.asked or {}
    if not decision.outcome.charges:
        return "refused", decision.asked or {}
    cost = decision.cost or {}
    if not decision.outcome.reserves:
        return decision.outcome.value, cost
    if step is not None and step.outcome.ends_reservation:
        update = step.reservation
        back = {} if update is None or update.returned is None else update.returned
        if step.outcome is Outcome.VOIDED:
            return step.outcome.value, cost
        return step.outcome.value, {
            name: f"{Decimal(text) - Decimal(back.get(name, '0')):f}" for name, text in cost.items()
        }
    if not is_open:
        return "lapsed", cost
    return (decision if step is None else step).outcome.value, cost


def _question_line(request: _RequestColumns) -> str:
    if request.question is None or request.noise is None:
        return ""
    line = f"{question_text(request.question)} ({noise_text(request.noise)})"
    stops = "" if request.stop is None else f" until {stop_text(request.stop)}"
    return shorten(line + stops, _LONG_CLAIM)


def refusal(
    refused: Decision | Preview,
    levels: Sequence[ScopeView],
    now: int,
    decided_at: int,
    current: CurrentDataset | None = None,
    claim: Claim | None = None,
) -> RefusalText | None:
    """Return the explanation of a refusal, None without a reason.

    Args:
        levels: the current limits of the analyst.
        now, decided_at: milliseconds since 1970.
        current: the dataset. `claim`: of a preview.
    """
    reason = refused.reason
    if reason is None:
        return None
    owner = owner_words(() if current is None else current.members)
    more = when_more(refused, period_limits_of(levels), decided_at, owner=owner, current=current)
    return RefusalText(
        title=REASONS[reason].title,
        # A limit may have changed since a decision, so its present words belong to a preview only.
        why=refusal_words(
            refused,
            levels=levels if isinstance(refused, Preview) else (),
            current=current,
            claim=claim,
        ),
        fits=fitting_words(refused, claim) if reason in _FITS else "",
        left=left_at_words(refused.left_at, refused.left, refused.asked),
        more=more,
        more_in="" if more is None or more.at is None else time_until(more.at, now),
        wants=_ask_kind(refused, more),
    )


def _ask_kind(
    refused: Decision | Preview, more: MoreAvailable | None
) -> AskKind | Literal["team", ""]:
    if refused.reason is Reason.NOT_PERMITTED:
        return "access"
    return "" if more is None else more.wants


def period_limits_of(
    levels: Sequence[ScopeView],
) -> dict[tuple[Scope, str | None], PeriodLimitView]:
    """Return the period limits among some limits, by scope and name."""
    return {(each.scope, each.name): each.pace for each in levels if each.pace is not None}


def request_id_of(decision: Decision) -> str:
    """Return the id of a decision's request, "" without one."""
    return _request(decision).request_id


def _request(decision: Decision) -> _RequestColumns:
    try:
        return _decode_request(decision.request)
    except DECODE_ERRORS:  # an invalid input: its fields may hold anything
        return _RequestColumns()
