"""Doubling: each round has twice the cost of the one before, exactly, and a ledger adds them up."""

from __future__ import annotations

from fractions import Fraction

import msgspec
import pytest

from accountant.errors import RequestInvalid
from accountant.questions import derive, doubling_rounds, noise_text, parse_noise, parse_question
from tests.accountant.questions.schemas import small_schema
from tests.accountant.reservations.scene import Scene
from tests.accountant.world import code

SCHEMA = small_schema(rows=2)


@pytest.mark.parametrize(
    ("first", "rounds"),
    [
        ("epsilon: 0.01", ["epsilon: 0.01", "epsilon: 0.02", "epsilon: 0.04", "epsilon: 0.08"]),
        (
            "rho: 1e-3, rounded_gaussian",
            ["rho: 0.001, rounded_gaussian", "rho: 0.002, rounded_gaussian"],
        ),
        ("rho: 0.3", ["rho: 0.3"]),
    ],
)
def test_each_round_has_twice_the_amount(first: str, rounds: list[str]) -> None:
    found = doubling_rounds(parse_noise(first), rounds=len(rounds))
    assert [noise_text(noise) for noise in found] == rounds


@pytest.mark.parametrize(
    ("first", "rounds", "error"),
    [
        ("sigma: 3", 2, "noise must be an epsilon or a rho to double, got 'sigma'"),
        ("error: 3 at 0.9", 2, "noise must be an epsilon or a rho to double, got 'error'"),
        ("epsilon: 1, laplace_reduction", 2, "noise.law must be of one answer"),
        ("epsilon: 1", 0, "rounds must be between 1 and 64, got 0"),
        ("epsilon: 1e-12", 65, "rounds must be between 1 and 64, got 65"),
        ("epsilon: 1", 11, "noise.epsilon must be 0 or between 1E-12 and 1E+3"),
    ],
)
def test_rounds_that_cannot_be_are_refused(first: str, rounds: int, error: str) -> None:
    with pytest.raises(RequestInvalid) as raised:
        doubling_rounds(parse_noise(first), rounds=rounds)
    assert error.replace("'", "") in str(raised.value).replace("'", "")


@pytest.mark.parametrize(
    ("question", "first", "policy", "total"),
    [
        ("mean(x) by c", "epsilon: 0.003", {"filter": "basic", "epsilon": "1"}, "epsilon"),
        ("count by c", "rho: 0.003", {"filter": "zcdp", "rho": "1", "delta": "1e-6"}, "rho"),
    ],
)
def test_a_ledger_charges_all_rounds(
    question: str, first: str, policy: dict[str, object], total: str
) -> None:
    scene, checked = Scene(**policy), parse_question(question, SCHEMA)
    for noise in doubling_rounds(parse_noise(first), rounds=6):
        claim = msgspec.to_builtins(derive(checked, noise).claim)
        assert code(scene.ask(claim)) == "granted"
    assert Fraction(scene.total(total)) == Fraction("0.003") * (2**6 - 1)
