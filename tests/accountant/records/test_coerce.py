"""Claims, policies, thresholds and ids as notebooks hold them."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID, uuid4

import msgspec
import numpy as np
import pytest
from hypothesis import given

from accountant.claims import (
    ATOMS,
    AllOf,
    Approximate,
    Brownian,
    Claim,
    Gaussian,
    Laplace,
    Pure,
    Repeat,
    Zcdp,
)
from accountant.errors import RequestInvalid
from accountant.odometers.linear import Linear
from accountant.policy import Policy
from accountant.records import encode
from accountant.records.coerce import coerce_claim, coerce_id, coerce_policy, coerce_ratios
from tests.accountant.strategies import claims
from tests.every_case import check_each, check_rows

PURE: Any = Pure  # constructors that take what notebooks hold
GAUSSIAN: Any = Gaussian
POLICY: Any = Policy


@given(claims())
def test_a_claim_with_text_amounts_and_its_wire_object_are_unchanged(
    claim: Claim,
) -> None:
    assert coerce_claim(claim) == claim
    assert coerce_claim(msgspec.json.decode(encode(claim))) == claim


def test_claim_text_is_unchanged() -> None:
    assert coerce_claim("gaussian:sigma=20,sensitivity=1") == "gaussian:sigma=20,sensitivity=1"
    assert type(coerce_claim(np.str_("pure:1"))) is str


def test_a_claim_accepts_the_number_types_of_notebooks() -> None:
    def check_case(claim: object, same: Claim) -> None:
        assert coerce_claim(claim) == same

    check_rows(
        check_case,
        [
            (PURE(0.5), Pure("0.5")),
            (PURE(np.float32(0.5)), Pure("0.5")),
            (GAUSSIAN(sigma=20, sensitivity=Fraction(1, 2)), Gaussian("20", "0.5")),
            (PURE(Decimal("0.1")), Pure("0.1")),
            ({"type": "pure", "epsilon": "0.1"}, Pure("0.1")),
            ({"type": "approximate", "epsilon": 1, "delta": "1e-9"}, Approximate("1", "1e-9")),
            ({"type": "repeat", "times": np.int64(3), "claim": PURE(1)}, Repeat(Pure("1"), 3)),
            ({"type": "all_of", "claims": (PURE(1), Zcdp("1"))}, AllOf((Pure("1"), Zcdp("1")))),
            (Brownian("9", "1"), Brownian("9", "1")),  # `previous` stays left out
        ],
    )


def test_a_claim_that_is_not_exact_or_unknown_is_refused_by_its_field() -> None:
    def check_case(claim: object, message: str) -> None:
        with pytest.raises(RequestInvalid, match=message):
            coerce_claim(claim)

    check_rows(
        check_case,
        [
            (PURE(0.1), r'claim\.epsilon must be exact.*write "0.1"'),
            ({"type": "all_of", "claims": [PURE(0.5), PURE(0.1)]}, r"claim\.claims\[1\]\.epsilon"),
            # A noise that is smaller costs more: the proposal is never more noise than there is.
            (GAUSSIAN(Fraction(1, 3), 1), r"claim\.sigma.*333\", which is rounded down"),
            (GAUSSIAN(1, Fraction(1, 3)), r"claim\.sensitivity.*334\", which is rounded up"),
            (PURE(Fraction(1, 3)), r"claim\.epsilon.*334\", which is rounded up"),
            (PURE(True), r"claim\.epsilon must be a number"),
            (PURE(None), r"claim\.epsilon has the wrong form"),
            ({"type": "gausian", "sigma": 1}, r"claim\.type .*did you mean gaussian\?"),
            (
                {"type": "pure", "epsilonn": 1},
                r"claim\.epsilonn: did you mean epsilon\? claim",
            ),
            ({"type": "pure"}, r"claim\.epsilon is missing: it must be given"),
            ({"type": "repeat", "times": 2.5, "claim": PURE(1)}, r"claim\.times must be a whole"),
            ({"type": "repeat", "times": True, "claim": PURE(1)}, r"claim\.times must be a whole"),
            ({1: 2}, "claim must have text for its keys"),
            (3, "claim must be text such as pure:0.1"),
            (None, "claim must be text such as pure:0.1"),
            ([PURE(1)], "claim must be text such as pure:0.1"),
        ],
    )


def test_every_amount_of_every_claim_may_be_a_number() -> None:
    def check_case(kind: Any) -> None:
        names = [field.name for field in msgspec.structs.fields(kind) if field.name != "sampler"]
        found = coerce_claim(kind(**dict.fromkeys(names, 0.5)))
        assert found == kind(**dict.fromkeys(names, "0.5"))

    check_each(check_case, ATOMS)


def test_an_object_within_itself_is_refused() -> None:
    claim: dict[str, Any] = {"type": "repeat", "times": 2}
    claim["claim"] = claim
    with pytest.raises(RequestInvalid, match="must nest at most 16 deep"):
        coerce_claim(claim)


@pytest.mark.parametrize(
    ("policy", "sent"),
    [
        ({"epsilon": 1, "delta": "1e-6"}, {"epsilon": "1", "delta": "1e-6"}),
        (POLICY(epsilon=1, delta=Decimal("1e-6")), {"epsilon": "1", "delta": "0.000001"}),
        ({"epsilon": "1", "alert_at": [0.5, 1]}, {"epsilon": "1", "alert_at": ["0.5", "1"]}),
        (
            {"epsilon": "1", "alert_at": np.array([0.5, 1.0])},
            {"epsilon": "1", "alert_at": ["0.5", "1"]},
        ),
        (
            {"rho": 1, "odometers": [Linear(0.5, 1)], "halt_on_refusal": True},  # type: ignore[arg-type]
            {
                "rho": "1",
                "odometers": [{"type": "linear", "delta": "0.5", "y": "1"}],
                "halt_on_refusal": True,
            },
        ),
    ],
)
def test_a_policy_accepts_the_number_types_of_notebooks(
    policy: object, sent: dict[str, object]
) -> None:
    assert coerce_policy(policy) == sent


def test_a_policy_of_text_stays_the_same_object() -> None:
    policy = {"epsilon": "1", "odometers": ({"type": "basic"},), "halt_on_refusal": False}
    assert coerce_policy(policy) == policy


def test_whole_numbers_and_switches_of_a_policy_are_no_amounts() -> None:
    policy = {"filter": "basic", "open_per_holder": 1000, "halt_on_refusal": True}
    assert coerce_policy(policy) == policy
    numpy = coerce_policy({**policy, "open_per_holder": np.int64(1000)})
    assert (numpy["open_per_holder"], type(numpy["open_per_holder"])) == (1000, int)


def test_a_policy_that_is_not_exact_is_refused_by_its_field() -> None:
    def check_case(policy: object, message: str) -> None:
        with pytest.raises(RequestInvalid, match=message):
            coerce_policy(policy)

    check_rows(
        check_case,
        [
            ({"epsilon": 1, "delta": 1e-6}, r'policy\.delta must be exact.*write "1e-6" as text'),
            # A budget that is rounded up would be larger than it was meant.
            ({"epsilon": Fraction(2, 3)}, r"policy\.epsilon.*666\", which is rounded down"),
            ({"epsilon": "1", "alert_at": [0.1]}, r"policy\.alert_at\[0\]"),
            ({"epsilon": True}, r"policy\.epsilon must be a number"),
            ({"epsilon": float("nan")}, r"policy\.epsilon must be finite"),
            ({"epsilon": -1}, r"policy\.epsilon must be 0 or more"),
            ({"epsilon": {0.5}}, r"policy\.epsilon must be a number"),
            ({"halt_on_refusal": np.True_}, r"policy\.halt_on_refusal must be a number"),
            ("epsilon=1", "policy must be a Policy, or an object"),
            (None, "policy must be a Policy, or an object"),
        ],
    )


def test_thresholds_accept_the_number_types_of_notebooks() -> None:
    assert coerce_ratios(["0.5", 0.75, Decimal("0.9"), 1]) == ("0.5", "0.75", "0.9", "1")
    assert coerce_ratios(np.array([0.5, 1.0])) == ("0.5", "1")


@pytest.mark.parametrize(
    ("ratios", "message"),
    [
        ("0.5", "alert_at must be a list of ratios"),
        (0.5, "alert_at must be a list of ratios"),
        ({0.5}, "alert_at must be a list of ratios"),
        ([0.1], r'alert_at\[0\] must be exact.*write "0.1"'),
        ([[0.5]], r"alert_at\[0\] must be a number"),
    ],
)
def test_thresholds_that_are_no_list_of_exact_ratios_are_refused(
    ratios: object, message: str
) -> None:
    with pytest.raises(RequestInvalid, match=message):
        coerce_ratios(ratios)


def test_an_id_is_text_or_a_uuid_of_version_7() -> None:
    text = "019a0000-0000-7000-8000-000000000000"
    assert coerce_id(text) == text
    assert coerce_id(UUID(text)) == text


@pytest.mark.parametrize("wrong", [uuid4(), "x", 7, None, b"019a0000-0000-7000-8000-000000000000"])
def test_an_id_that_is_not_a_uuid7_is_refused_with_the_command_that_makes_one(
    wrong: object,
) -> None:
    with pytest.raises(RequestInvalid, match=r"must be a UUID of version 7.*accountant id"):
        coerce_id(wrong)


def test_laplace_noise_is_rounded_down_too() -> None:
    scale: Any = Fraction(1, 3)
    with pytest.raises(RequestInvalid, match=r"claim\.scale.*which is rounded down"):
        coerce_claim(Laplace(scale, "1"))
