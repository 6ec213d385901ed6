"""A refusal names the filter that would take the claim, and its share of the same budget."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from accountant.claims.text import parse_claim
from accountant.display.other_filter import other_filter_words
from accountant.policy import Policy, resolve
from accountant.records.limit_records import LimitName
from accountant.records.outcomes import Reason
from tests.accountant.display.test_refusals import refused

TRAINING = "96*subsampled_gaussian:sigma=1.1,sensitivity=1,rate=0.03125"
POLICY = resolve(Policy(epsilon="8", delta="1e-6"))


def request(claim: str) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode({"claim": parse_claim(claim)}))


@pytest.mark.parametrize("reason", [Reason.EXHAUSTED, Reason.ABOVE_CAP, Reason.CLAIM_NOT_ACCEPTED])
def test_a_refusal_names_another_filter_and_the_share_that_it_needs(reason: Reason) -> None:
    words = other_filter_words(
        msgspec.structs.replace(refused(request=request(TRAINING)), reason=reason), POLICY
    )
    assert words == (
        "Filter zcdp_tight never grants it, however much remains. With the same budget, filter "
        "renyi at order 4 would take it for 6.6 % of the budget. A filter is fixed at the "
        "opening: open another dataset with "
        "`accountant dataset open NAME --epsilon 8 --delta 1e-6 --filter renyi --order 4`."
    )


@pytest.mark.parametrize(
    "more",
    [
        {"fits": "pure:0.1"},
        {"level": LimitName("team", "blue", "limit")},
        {"request": msgspec.Raw(b"{}")},
        {"request": request("pure:0.01")},
        {"request": request("pure:100")},
    ],
)
def test_a_refusal_names_no_other_filter_if_none_helps(more: dict[str, Any]) -> None:
    found = refused(**({"request": request(TRAINING)} | more))
    assert other_filter_words(found, POLICY) == ""
