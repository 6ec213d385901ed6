"""One request asks for a bounded amount of work, whatever its batch holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal

import pytest

from accountant.claims import MAX_CLAIMS
from accountant.claims.price import MAX_WORK
from accountant.conversions.renyi_subsampled import terms
from accountant.replay.audit import audit
from tests.accountant.world import World, code

Wire = dict[str, object]
HIGH = [f"{order}.5" for order in range(4079, 4095)]
RENYI: Wire = {"filter": "renyi_weighted", "epsilon": "1000", "delta": "1e-6"}
RESIDUE: Wire = {"filter": "gdp_residue", "epsilon": "1000", "delta": "0.5"}


def batch(parts: Iterable[Wire]) -> Wire:
    """Return one claim of all parts, nested where they are many."""
    all_parts = list(parts)
    groups = [all_parts[i : i + MAX_CLAIMS] for i in range(0, len(all_parts), MAX_CLAIMS)]
    return {
        "type": "all_of",
        "claims": [{"type": "all_of", "claims": group} for group in groups],
    }


def sampled(i: int) -> Wire:
    return {
        "type": "subsampled_gaussian",
        "sigma": f"2.{i:04d}",
        "sensitivity": "1",
        "rate": "0.01",
    }


def pure(i: int) -> Wire:
    return {"type": "pure", "epsilon": f"2.{i:04d}1"}


def small(i: int) -> Wire:
    return {"type": "pure", "epsilon": f"0.0{i:04d}1"}


def ask_in_new_world(policy: Wire, claim: Wire) -> tuple[World, str]:
    world = World()
    world.open(**policy)
    return world, code(world.ask(claim))


@pytest.mark.parametrize(
    ("policy", "part", "too_many"),
    [(RENYI | {"orders": HIGH}, sampled, 9), (RESIDUE, pure, 9)],
)
def test_a_batch_that_needs_too_much_work_is_refused_and_costs_nothing(
    policy: Wire, part: Callable[[int], Wire], too_many: int
) -> None:
    world, refused = ask_in_new_world(policy, batch(map(part, range(too_many))))
    assert refused == "claim_not_accepted"
    assert world.ledger().mechanisms == 0
    _, taken = ask_in_new_world(policy, batch(map(part, range(too_many - 1))))
    assert taken in {"granted", "exhausted"}
    assert audit(world.log).ok


@pytest.mark.parametrize(
    ("policy", "claim"),
    [
        (RENYI | {"orders": HIGH}, {"type": "repeat", "times": 1000, "claim": sampled(1)}),
        (RENYI | {"orders": HIGH}, batch([sampled(1)] * 500)),
        (RENYI | {"orders": ["20", "32", "64"]}, batch(map(sampled, range(500)))),
        (RESIDUE, batch(map(small, range(500)))),
        (RESIDUE, {"type": "repeat", "times": 40, "claim": pure(1)}),
        ({"epsilon": "1000", "delta": "1e-6"}, batch(map(pure, range(100)))),
    ],
)
def test_a_batch_of_equal_or_cheap_parts_is_accepted(policy: Wire, claim: Wire) -> None:
    world, taken = ask_in_new_world(policy, claim)
    assert taken in {"granted", "exhausted"}
    assert audit(world.log).ok


def test_one_mechanism_is_never_too_much() -> None:
    assert terms(Decimal(HIGH[-1])) * len(HIGH) < MAX_WORK
