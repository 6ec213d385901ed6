"""Who was refused reads why, what would fit, and when more comes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from accountant.display.reasons import REASONS
from accountant.display.refusals import MoreAvailable
from accountant.records import FORMAT, RULES, Decision
from accountant.records.limit_records import LimitName, LimitRemaining
from accountant.records.outcomes import Outcome, Reason
from accountant.views.limit_views import ScopeView
from streams.pages.dataset.request_rows import RefusalText, request_row
from tests.streams.pages.dataset.view_examples import NOW, level, pace

_ID = "00000000-0000-7000-8000-000000000000"


def decision(claim: Any = None, purpose: str = "", **fields: Any) -> Decision:
    request = {"analyst": "ana", "request_id": _ID, "purpose": purpose}
    request["claim"] = claim or {"type": "pure", "epsilon": "0.3"}
    result = {
        "version": FORMAT,
        "rules": RULES,
        "partition_sequence": 7,
        "previous": "",
        "decided_at": "2026-11-21T11:00:00.000Z",
        "floor": "",
        "sequence": 5,
        "outcome": Outcome.REFUSED,
        "left": {"epsilon": "0.1"},
        "request": msgspec.Raw(msgspec.json.encode(request)),
    }
    return Decision(**(result | fields))


def refused(**fields: Any) -> Decision:
    result = {"reason": Reason.EXHAUSTED, "asked": {"epsilon": "0.3", "loss_epsilon": "0.3"}}
    return decision(**(result | fields))


def refusal_of(decision: Decision, *levels: ScopeView) -> RefusalText:
    result = request_row(decision, levels, NOW).refusal
    assert result is not None
    return result


def test_a_granted_request_row_shows_its_cost() -> None:
    result = request_row(
        decision(outcome=Outcome.GRANTED, cost={"epsilon": "0.3", "x": "1"}), (), NOW
    )
    assert result.outcome == "granted"
    assert (result.claim, result.cost, result.refusal) == ("pure:0.3", "ε 0.3", None)


def test_an_exhausted_budget_shows_what_fits_and_that_waiting_will_not_help() -> None:
    result = refusal_of(refused(fits="pure:0.1"))
    assert result.title == "Did not fit"
    assert result.fits == "pure:0.1"
    assert result.more == MoreAvailable("Waiting will not help: a dataset's budget is fixed.")
    assert request_row(refused(), (), NOW).cost == "ε 0.3"


def test_a_refusal_by_a_period_limit_shows_when_more_comes() -> None:
    named = LimitName("team", "red", "pace")
    left = (
        LimitRemaining("dataset", None, {"epsilon": "0.5"}),
        LimitRemaining("team", "red", None, {"epsilon": "0"}, "2026-11-22T00:00:00.000Z"),
    )
    result = refusal_of(refused(level=named, left_at=left), level("team", "red", pace=pace("0")))
    assert result.why == (
        "The period limit of team red has too little left in this period: the request costs ε 0.3, "
        "and 0 is left. The period ends at 2026-11-22 00:00 UTC."
    )
    assert result.more == MoreAvailable(
        "More comes at 2026-11-22 00:00 UTC.", "2026-11-22T00:00:00.000Z"
    )
    assert result.more_in == "in 12 hours"
    assert result.left == (
        "the whole dataset: ε 0.5 left and not reserved for others",
        "team red: ε 0 left in this period",
    )
    assert result.fits == "nothing of this kind"


def test_no_composed_claim_is_said_to_fit_never() -> None:
    claims = [{"type": "pure", "epsilon": "0.1"}, {"type": "zcdp", "rho": "0.1"}]
    several = refused(claim={"type": "all_of", "claims": claims})
    assert refusal_of(several).fits.endswith("ask for less, such as half")


def test_a_refusal_in_an_earlier_period_says_to_ask_again() -> None:
    named = LimitName("team", "red", "pace")
    left = (LimitRemaining("team", "red", None, {"epsilon": "0"}, "2026-11-20T00:00:00.000Z"),)
    before = refused(level=named, left_at=left, decided_at="2026-11-19T11:00:00.000Z")
    result = refusal_of(before, level("team", "red", pace=pace("0.1")))
    assert result.more == MoreAvailable("A new period has begun since: ask again.")


def test_a_request_above_a_whole_period_is_not_promised_more() -> None:
    left = (LimitRemaining("team", "red", None, {"epsilon": "0.1"}),)
    named = LimitName("team", "red", "pace")
    result = refusal_of(refused(level=named, left_at=left), level("team", "red", pace=pace("0.1")))
    assert result.more is not None
    assert result.more.text.startswith(
        "Waiting will not help: a whole period of the period limit of team red is too small"
    )
    assert result.more.at is None


@pytest.mark.parametrize(
    ("what", "words"), [("limit", "raise the limit"), ("reserved", "reserve less")]
)
def test_a_refusal_by_a_limit_says_what_an_owner_can_change(what: Any, words: str) -> None:
    result = refusal_of(refused(level=LimitName("analyst", "ana", what)))
    assert result.more is not None
    assert words in result.more.text


def test_other_refusals_show_their_reason_and_nothing_that_fits() -> None:
    result = refusal_of(decision(reason=Reason.UNIT_MISMATCH))
    assert result.why == str(REASONS[Reason.UNIT_MISMATCH])
    assert (result.fits, result.more) == ("", None)
    own = refusal_of(decision(reason=Reason.CLAIM_NOT_ACCEPTED, level=LimitName("team", "red")))
    assert "The limit of team red decides this." in own.why


def test_a_long_claim_is_shortened_with_its_full_text() -> None:
    claim = {"type": "all_of", "claims": [{"type": "pure", "epsilon": "0.1"}] * 50}
    result = request_row(decision(claim, purpose="x" * 1_000, outcome=Outcome.GRANTED), (), NOW)
    assert len(result.claim) == 81
    assert result.whole_claim.count("pure:0.1") == 50
    assert len(result.purpose) == 301


def test_a_malformed_request_is_shown_without_a_claim() -> None:
    odd = msgspec.Raw(b'{"analyst": 7, "claim": "none"}')
    result = request_row(decision(reason=Reason.INVALID_FIELD, request=odd), (), NOW)
    assert (result.claim, result.analyst) == ("", "")
