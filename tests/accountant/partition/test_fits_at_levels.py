"""What a refusal offers where levels apply: cases that the model of limits has found."""

from __future__ import annotations

import json

from tests.accountant.partition.circle import sound
from tests.accountant.partition.division import ask_for_record, divide, divided
from tests.accountant.world import code

WITH_DELTA = {"filter": "basic", "epsilon": "1", "delta": "1e-6", "odometers": []}


def test_a_claim_like_one_that_a_level_cannot_take_at_all_is_offered() -> None:
    world = divided()
    counted = {"filter": "optimal_homogeneous", "epsilon": "1", "delta": "1e-6"}
    divide(world, "each", "blue", policy={**counted, "epsilon_each": "0.05"})
    refused = ask_for_record(world, "ana", "2")  # the dataset has no room, the level no such claim
    assert refused["reason"] == "exhausted"
    assert "level" not in refused
    assert refused.get("fits") == "pure:0.05"
    assert ask_for_record(world, "ana", "0.05")["outcome"] == "granted"
    assert sound(world)


def test_a_limit_that_counts_in_periods_alone_bounds_the_offer() -> None:
    world = divided()
    divide(world, "team", "blue", pace={"part": "0.2", "period": "P1D"})
    assert ask_for_record(world, "ben", "0.15")["outcome"] == "granted"
    refused = ask_for_record(world, "ana", "2")
    assert refused["reason"] == "exhausted"
    assert refused["fits"] == "pure:0.05"
    assert ask_for_record(world, "ana", "0.05")["outcome"] == "granted"
    assert sound(world)


def test_no_batch_is_offered_if_the_limit_is_below_the_delta_already_used() -> None:
    world = divided(WITH_DELTA)
    divide(world, "team", "blue", part="0.5")
    assert code(world.ask("approximate:0.01,4e-7", analyst="ana")) == "granted"
    divide(world, "team", "blue", part="0.3")  # used of delta: more than that
    decision = world.ask("2*pure:0.01", analyst="ana")
    refused = json.loads(world.log[decision.partition_sequence])
    assert refused["level"] == {"scope": "team", "name": "blue", "what": "limit"}
    assert "fits" not in refused
    assert code(world.ask("1*pure:0.01", analyst="ana")) == "exhausted"
    assert sound(world)


def test_a_filter_that_admitted_more_than_basic_beside_it_still_offers_a_claim() -> None:
    world = divided({"filter": "gdp_residue", "epsilon": "1", "delta": "1e-6", "beside": "basic"})
    divide(world, "analyst", "ana", policy={"filter": "zcdp", "rho": "0.02", "delta": "1e-6"})
    for _ in range(150):
        assert ask_for_record(world, "ana", "0.01")["outcome"] == "granted"
    refused = ask_for_record(world, "ana", "0.9")
    assert refused["totals"]["epsilon"] == "1.5"
    assert refused["fits"].startswith("pure:0.1")
    assert code(world.ask(refused["fits"], analyst="ana")) == "granted"
    assert sound(world)
