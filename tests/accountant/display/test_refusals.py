"""A refusal says what has too little left, by how much, and when more budget comes."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from accountant.display.current_dataset import CurrentDataset
from accountant.display.reasons import NO_ROOM, REASONS
from accountant.display.refusals import refusal_words, when_more
from accountant.policy import Policy
from accountant.records import FORMAT, RULES, Decision
from accountant.records.limit_records import LimitName, LimitRemaining
from accountant.records.outcomes import Outcome, Reason
from accountant.times import uuid7
from accountant.views.datasets import view_of_ledger
from tests.accountant.world import START, code, opened
from tests.every_case import every_case

AT = "2026-12-01T10:00:00.000Z"


def refused(**given: Any) -> Decision:
    return Decision(
        partition_sequence=1,
        decided_at=AT,
        floor=AT,
        version=FORMAT,
        rules=RULES,
        previous="",
        outcome=Outcome.REFUSED,
        reason=Reason.EXHAUSTED,
        **given,
    )


@pytest.mark.parametrize(
    ("level", "at", "more"),
    [
        (None, NO_ROOM, "a dataset's budget is fixed"),
        (
            LimitName("team", "blue", "limit"),
            "The limit of team blue has too little",
            "raise",
        ),
        (LimitName("dataset", None, "reserved"), "The rest of the budget is reserved", "less"),
        (
            LimitName("each", "blue", "pace"),
            "The period limit of each analyst of team blue",
            "2026-12-01",
        ),
        (
            LimitName("team", "blue", "pace"),
            "The period limit of team blue",
            "a whole period of the period limit of team blue is too small",
        ),
    ],
)
def test_a_refusal_says_which_level_and_when_more_comes(
    level: LimitName | None, at: str, more: str
) -> None:
    decision = refused(level=level, left_at=(LimitRemaining("each", "blue", more_at=AT),))
    assert refusal_words(decision).startswith(at)
    found = when_more(decision)
    assert found is not None
    assert more in found.text


def test_a_delta_that_is_not_there_is_named() -> None:
    asked, left = {"epsilon": "0.1", "delta": "1.23456e-7"}, {"epsilon": "1", "delta": "0"}
    words = refusal_words(refused(asked=asked, left=left))
    assert words.startswith("The claim has a delta of 1.235e-7, and nothing of the dataset's delta")


def test_a_granted_decision_has_no_refusal_text() -> None:
    granted = msgspec.structs.replace(refused(), outcome=Outcome.GRANTED, reason=None)
    assert refusal_words(granted) == ""
    assert when_more(granted) is None


def test_the_text_of_an_exhausted_request_has_its_cost_and_the_amount_left() -> None:
    asked, left = {"epsilon": "0.3", "delta": "0"}, {"epsilon": "0.2", "delta": "0"}
    words = refusal_words(refused(asked=asked, left=left))
    assert words == (
        "The dataset's budget has too little left: the request costs ε 0.3, and 0.2 is left."
    )
    assert refusal_words(refused(asked=asked, left=left), amounts=False) == NO_ROOM


def other(reason: Reason, request: dict[str, Any] | None = None, **fields: Any) -> Decision:
    raw = msgspec.Raw(msgspec.json.encode(request or {}))
    return msgspec.structs.replace(refused(request=raw, **fields), reason=reason)


def test_a_claim_for_another_unit_is_shown_beside_the_policy() -> None:
    decision = other(Reason.UNIT_MISMATCH, {"unit": "visit", "neighbours": "add_remove"})
    both = refusal_words(decision, Policy(unit="person", neighbours="add_remove"))
    assert both.startswith(
        "The claim is for unit visit and neighbours add_remove, and the policy for unit person and "
        "neighbours add_remove. Derive the claim"
    )
    assert "unit visit" in refusal_words(decision)


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"by": "olga"}, "olga is not an owner of dataset census."),
        ({"analyst": "ana"}, "ana is not an analyst of dataset census."),
        (
            {"analyst": "ana", "via": "tumult"},
            "ana is not an analyst of dataset census, or tumult not its engine or curator.",
        ),
        (
            {},
            (
                "The caller, or the engine that asks for the caller, does not have the role that "
                "this needs in dataset census."
            ),
        ),
    ],
)
def test_a_missing_role_is_named_with_its_member(request_: dict[str, str], said: str) -> None:
    words = refusal_words(other(Reason.NOT_PERMITTED, request_, dataset="census"))
    assert words.startswith(f"{said} Ask an owner (whoever runs the ledger can name them)")
    for name in request_.values():
        given = f"`accountant member set census {name} --role " in words
        assert given or f"--reason WHY --by {name}`" in words


def test_an_unknown_dataset_is_named() -> None:
    words = refusal_words(other(Reason.UNKNOWN_DATASET, dataset="sensus"))
    assert words.startswith("No dataset is named sensus. List the datasets")


def test_a_record_that_is_out_of_date_is_shown_beside_the_last_decision() -> None:
    words = refusal_words(other(Reason.OUT_OF_DATE, {"follows": 3}, sequence=6, dataset="census"))
    assert "follows decision 3 of dataset census, and the last one was 5." in words


@pytest.mark.parametrize("at", [START, 2**48 - 1])
def test_an_id_of_the_future_is_shown_beside_the_clock(at: int) -> None:
    words = refusal_words(other(Reason.ISSUED_IN_FUTURE, {"request_id": uuid7(at, bytes(10))}))
    if at == START:
        said = "The id's time is 2026-11-21 10:00 UTC, and the ledger's is 2026-12-01 10:00 UTC."
        assert words.startswith(said)
    else:
        assert words == str(REASONS[Reason.ISSUED_IN_FUTURE])


def test_the_text_of_a_request_above_the_cap_has_the_cap_and_its_cost() -> None:
    asked, left = {"epsilon": "0.8", "delta": "0"}, {"epsilon": "0.9", "delta": "0"}
    decision = other(Reason.ABOVE_CAP, {}, asked=asked, left=left)
    assert refusal_words(decision, Policy(most_per_request="0.1")).startswith(
        "One request may take 10 % of the budget, and this one costs ε 0.8. Ask for less"
    )
    assert ": this one costs ε 0.8. Ask for less" in refusal_words(decision)


def test_no_cap_is_raised_for_a_request_that_does_not_fit_without_it() -> None:
    asked = {"rho": "0.4622", "delta": "0", "epsilon": "1"}
    left = {"rho": "0.02312", "delta": "0", "epsilon": "0.95"}
    decision = other(Reason.ABOVE_CAP, {}, asked=asked, left=left)
    words = refusal_words(decision, Policy(most_per_request="0.1"))
    assert words.endswith("Ask for less. Even without the cap, only ρ 0.02312 or ε 0.95 is left.")
    decision = other(Reason.ABOVE_CAP, {}, asked=asked, left=left | {"epsilon": "1"})
    words = refusal_words(decision, Policy(most_per_request="0.1"))
    assert "to raise the cap" in words


RHO = {"epsilon": "3", "delta": "1e-6", "beside": "basic"}
RENYI = {"epsilon": "1", "delta": "1e-6", "filter": "renyi_weighted", "orders": ["22", "40"]}
CAPS: list[tuple[dict[str, Any], str, str, list[str]]] = [
    # Policy, claim, the cap in its words, and claims within each of its amounts.
    ({"filter": "basic"}, "pure:0.5", "ε 0.1", ["pure:0.1"]),
    (
        {"filter": "basic", "delta": "1e-6"},
        "approximate:epsilon=0.5,delta=1e-6",
        "ε 0.1",
        ["approximate:epsilon=0.1,delta=1e-7"],  # the cap counts no delta
    ),
    (RHO, "pure:2", "ρ 0.0185 or ε 0.3", ["pure:0.3", "zcdp:0.0185"]),
    (RHO, "zcdp:0.1", "ρ 0.0185", ["zcdp:0.0185"]),
    (
        RHO | {"delta_for_claims": "1e-7"},
        "approximate:epsilon=2,delta=1e-7",
        "ρ 0.01835 or ε 0.3",
        ["approximate:epsilon=0.3,delta=1e-7"],
    ),
    (RENYI, "pure:0.9", "renyi 22 0.05028 or renyi 40 0.07478", ["pure:0.051"]),
]


@every_case(("policy", "claim", "cap", "within"), CAPS)
def test_the_words_of_a_cap_have_what_each_currency_admits(
    policy: dict[str, Any], claim: str, cap: str, within: list[str]
) -> None:
    world = opened(**{"epsilon": "1"} | policy, most_per_request="0.1")
    refused = world.ask(claim)
    assert refused.reason is Reason.ABOVE_CAP
    words = refusal_words(refused, current=CurrentDataset(view_of_ledger(world.ledger())))
    found = re.match(r"One request may take 10 % of the budget \((.*?)\), and", words)
    assert found is not None, words
    assert found[1] == cap
    for each in within:
        assert code(world.ask(each)) == "granted"


def test_a_cap_whose_sums_a_rule_ties_together_has_no_amounts() -> None:
    # Each sum may be within a tenth of its budget, and both together above it.
    world = opened(filter="advanced_2016", epsilon="1", delta="1e-6", most_per_request="0.1")
    current = CurrentDataset(view_of_ledger(world.ledger()))
    words = refusal_words(world.ask("pure:0.2"), current=current)
    assert words.startswith("One request may take 10 % of the budget, and this one costs epsilon")


def test_every_limit_that_waiting_does_not_help_at_is_named() -> None:
    left = (
        LimitRemaining("team", "blue", {"rho": "0.1"}, None),
        LimitRemaining("analyst", "cy", None, {"rho": "0.1"}, None),
    )
    named = LimitName("team", "blue", "limit")
    found = when_more(refused(level=named, left_at=left, asked={"rho": "0.2"}))
    assert found is not None
    assert found.text == (
        "Waiting will not help: an owner (whoever runs the ledger can name them) would have to "
        "raise the limit of team blue, and a whole period of the period limit of analyst "
        "cy is too small for this request."
    )
    soon = msgspec.structs.replace(left[1], more_at="2026-12-03T00:00:00.000Z")
    found = when_more(refused(level=named, left_at=(left[0], soon), asked={"rho": "0.2"}))
    assert found is not None
    assert found.text == (
        "Waiting alone will not help: an owner (whoever runs the ledger can name them) would have "
        "to raise the limit of team blue, and more of the period limit of analyst cy comes at "
        "2026-12-03 00:00 UTC."
    )
