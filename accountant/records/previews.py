"""The question of a preview: a request without an id, which is never decided."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from accountant.claims import CheckedClaim, Claim, check_claim
from accountant.errors import RequestInvalid
from accountant.field_rules import Name
from accountant.policy import Neighbours
from accountant.questions.expected_error import check_guess
from accountant.questions.noise import Noise
from accountant.questions.statistics import Question
from accountant.records.inputs import (
    Undecodable,
    _parse,
    canonical,
    check_no_question,
    check_question_fields,
)
from accountant.records.names import check_name
from accountant.records.outcomes import Reason
from accountant.records.requests import Reserve
from accountant.records.reservation_rows import check_until
from accountant.records.texts import check_texts, may_break_text_rule
from accountant.records.translate import translate


class PreviewRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A question: which answer would a request get, and what would it cost?

    Attributes:
        claim, unit, neighbours: as in a request; all required, if there is no question.
        question, noise: both of these instead.
        guess: of a question, how many rows each group may have: the error of a mean depends on it.
        analyst: whose role and limits count. Left out: a caller who may ask, without limits.
        via: the engine that would ask.
        reserve: as in a request: whether it would be reserved. Under `gdp_residue` a pure mechanism
            costs more while it may be voided.
    """

    claim: Claim | UnsetType = UNSET
    unit: str | UnsetType = UNSET
    neighbours: Neighbours | UnsetType = UNSET
    analyst: Name | None = None
    via: Name | UnsetType = UNSET
    reserve: Reserve | UnsetType = UNSET
    question: Question | UnsetType = UNSET
    noise: Noise | UnsetType = UNSET
    guess: int | UnsetType = UNSET


class _Wish(PreviewRequest, frozen=True, forbid_unknown_fields=False):
    """The same of a whole request, whose other fields do not count."""


_decode_wish: Final = msgspec.json.Decoder(_Wish).decode
_decode: Final = msgspec.json.Decoder(PreviewRequest).decode


def preview_request_of(body: bytes) -> PreviewRequest:
    """Return the question of a valid request."""
    return _decode_wish(body)


def check_asked(asked: PreviewRequest) -> CheckedClaim | None:
    """Return the checked claim of a preview, None where it has a question in its place.

    Raises: RequestInvalid: a field of either breaks its rule.
    """
    if asked.claim is UNSET or asked.unit is UNSET or asked.neighbours is UNSET:
        check_question_fields(asked)
        return None
    check_no_question(asked)
    if asked.guess is not UNSET:
        raise RequestInvalid("guess", "must be left out without a question", asked.guess)
    try:
        return check_claim(asked.claim)
    except RequestInvalid as error:
        raise error.under("claim") from None


def check_preview(value: bytes) -> PreviewRequest:
    """Return what a body asks for, checked by the rules of a request's body.

    Raises:
        Undecodable: no JSON object, a key twice, too long or nested too deep.
        RequestInvalid: a field breaks its rule.
    """
    body = canonical(value)
    try:
        asked = _decode(body)
    except msgspec.ValidationError as error:
        translate(error, _parse(body), PreviewRequest)
    except (msgspec.DecodeError, RecursionError):
        _parse(body)
        raise Undecodable(Reason.UNDECODABLE, "the body must be a JSON object") from None
    parsed = _parse(body)
    if may_break_text_rule(body):
        check_texts(parsed)
    check_asked(asked)
    if asked.reserve is not UNSET:
        check_until(asked.reserve.until)
    if asked.guess is not UNSET:
        check_guess(asked.guess)
    if asked.analyst is not None:
        check_name("analyst", asked.analyst)
    if asked.via is not UNSET:
        check_name("via", asked.via)
        if asked.analyst is None:
            raise RequestInvalid("via", "must be left out where analyst is", asked.via)
    return asked
