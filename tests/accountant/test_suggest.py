"""Words that are not known: each error says which known one comes near, and no record does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from accountant.claims.text import parse_claim
from accountant.errors import RequestInvalid
from accountant.policy import Policy, resolve
from accountant.records import Source
from accountant.records.inputs import check_body
from accountant.suggest import closest, did_you_mean
from tests.accountant.world import World, opened
from tests.every_case import check_rows

OPEN = {
    "version": 1,
    "type": "open",
    "request_id": "019a0000-0000-7000-8000-000000000000",
    "dataset": "census",
    "by": "owner",
    "policy": {"epsilon": "1", "delta": "1e-6"},
}


def test_the_nearest_valid_word_is_suggested() -> None:
    def check_case(word: object, known: list[str], meant: str) -> None:
        assert closest(word, known) == meant
        assert did_you_mean(word, known)() == (f"did you mean {meant}?" if meant else "")

    check_rows(
        check_case,
        [
            ("gausian", ["gaussian", "laplace"], "gaussian"),
            ("Gaussian", ["gaussian", "laplace"], "gaussian"),
            ("add-remove", ["add_remove", "replace"], "add_remove"),
            ("ADD REMOVE", ["add_remove", "replace"], "add_remove"),
            ("gaussian", ["gaussian"], ""),  # it is known: something else is wrong
            ("xyz", ["gaussian", "laplace"], ""),
            ("", ["gaussian"], ""),
            (None, ["gaussian"], ""),
            (3, ["gaussian"], ""),
            ("gaussian" * 1000, ["gaussian"], ""),  # nobody waits for this comparison
            ("word1", [f"word{i}" for i in range(2000)], ""),
            ("gausian", [], ""),
        ],
    )


def message(source: Source, fields: dict[str, Any]) -> str:
    base = json.loads(World().request()) if source == "requests" else OPEN
    with pytest.raises(RequestInvalid) as caught:
        check_body(source, json.dumps(base | fields).encode())
    return str(caught.value)


PART = {"type": "gaussian", "sigmma": "1"}


def test_a_body_with_an_unknown_word_gets_a_suggestion() -> None:
    def check_case(source: Source, fields: dict[str, Any], meant: str) -> None:
        assert f": did you mean {meant}? " in message(source, fields)

    check_rows(
        check_case,
        [
            ("requests", {"claim": {"type": "gausian", "sigma": "1"}}, "gaussian"),
            ("requests", {"claim": PART}, "sigma"),
            ("requests", {"claim": {"type": "repeat", "times": 2, "claim": PART}}, "sigma"),
            (
                "requests",
                {"claim": {"type": "all_of", "claims": [{"type": "pure", "epsilon": "1"}, PART]}},
                "sigma",
            ),
            ("requests", {"neighbours": "add-remove"}, "add_remove"),
            ("requests", {"analist": "ann"}, "analyst"),
            ("requests", {"type": "reqest"}, "request"),
            ("admin", {"type": "opne"}, "open"),
            ("admin", {"policy": {"epsilonn": "1"}}, "epsilon"),
            ("admin", {"policy": {"filter": "zcdp-tight", "epsilon": "1"}}, "zcdp_tight"),
            ("admin", {"policy": {"odometers": [{"type": "linnear"}]}}, "linear"),
            (
                "admin",
                {"policy": {"odometers": [{"type": "combined", "odometers": [{"type": "baisc"}]}]}},
                "basic",
            ),
        ],
    )


@pytest.mark.parametrize("fields", [{"zzz": "1"}, {"version": 2}, {"claim": {"type": "??"}}])
def test_a_word_that_nothing_resembles_gets_no_suggestion(fields: dict[str, Any]) -> None:
    assert "did you mean" not in message("requests", fields)


@pytest.mark.parametrize(
    ("text", "meant"),
    [("gausian:1,1", "gaussian"), ("Pure:1", "pure"), ("2*zcpd:1", "zcdp")],
)
def test_an_unknown_kind_of_a_typed_claim_gets_a_suggestion(text: str, meant: str) -> None:
    with pytest.raises(RequestInvalid, match=rf": did you mean {meant}\? "):
        parse_claim(text)


def test_an_unknown_field_of_a_typed_claim_gets_a_suggestion() -> None:
    with pytest.raises(RequestInvalid, match=r": did you mean sensitivity\? "):
        parse_claim("gaussian:sigma=1,sensitivty=1")


def test_an_error_keeps_its_hint_under_an_outer_field() -> None:
    with pytest.raises(RequestInvalid) as caught:
        resolve(Policy(filter="basik", epsilon="1"))
    assert caught.value.under("outer").hint == "did you mean basic?"


def test_a_decision_writes_no_hint() -> None:
    decision = opened().ask({"type": "gausian", "sigma": "1"})
    assert decision.error is not None
    assert decision.error.rule == "has the wrong form (invalid value 'gausian')"
    assert "mean" not in f"{decision.error.value}{decision.error.field}"


def test_an_error_shows_a_huge_integer_as_its_type() -> None:
    assert "a value of type int" in str(RequestInvalid("epsilon", "must be small", 10**5000))
