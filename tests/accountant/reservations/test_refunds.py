"""What a step of a reservation gives back, by every filter: exactly what it was charged, or less.

The expected amounts are those of the table of filters and claims in the rules of reservations.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any, Final

import mpmath
import msgspec
import pytest

from tests.accountant.filters import policies
from tests.accountant.reservations.scene import HOUR, NOISE_REDUCTION, Scene
from tests.accountant.world import code
from tests.every_case import check_each

Body = dict[str, Any]


def _policies() -> dict[str, Body]:
    """Return one policy of each filter, and one of each beside basic composition."""
    found = {}
    for name, policy in policies.POLICIES.items():
        fields = {n: v for n, v in msgspec.to_builtins(policy).items() if v is not None}
        found[name] = fields
        if name not in {"basic", "ex_post", "zcdp"}:
            found[f"{name} beside basic"] = {**fields, "beside": "basic"}
    return found


POLICIES: Final = _policies()
SMALL_NOISE_REDUCTION: Final[Body] = {
    "type": "ex_post",
    "epsilon": "0.02",
    "sensitivity": "1",
    "first": "500",
    "least": "50",
}
BROWNIAN: Final[Body] = {
    "type": "brownian",
    "variance": "2000",
    "sensitivity": "1",
    "first": "20000",
}
"""Shown at 8000: rho of 0.0000625 of 0.00025."""
CONTINUED: Final[Body] = {**BROWNIAN, "first": "16000", "previous": "40000"}
CLAIMS: Final[dict[str, Body]] = {
    "pure": {"type": "pure", "epsilon": "0.02"},
    "laplace": {"type": "laplace", "scale": "70", "sensitivity": "1"},
    "randomized_response": {"type": "randomized_response", "epsilon": "0.02"},
    "approximate": {"type": "approximate", "epsilon": "0.02", "delta": "1e-8"},
    "probabilistic": {"type": "probabilistic", "epsilon": "0.02", "delta": "1e-8"},
    "bounded_range": {"type": "bounded_range", "eta": "0.02"},
    "gaussian": {"type": "gaussian", "sigma": "70", "sensitivity": "1"},
    "gdp": {"type": "gdp", "mu": "0.01"},
    "zcdp": {"type": "zcdp", "rho": "0.0001"},
    "approximate_zcdp": {"type": "approximate_zcdp", "rho": "0.0001", "delta": "1e-8"},
    "subsampled_gaussian": {
        "type": "subsampled_gaussian",
        "sigma": "70",
        "sensitivity": "1",
        "rate": "0.1",
    },
    "plain ex_post": {"type": "ex_post", "epsilon": "0.02", "delta": "1e-8"},
    "noise reduction": SMALL_NOISE_REDUCTION,
    "brownian": BROWNIAN,
    "continued brownian": CONTINUED,
    "interactive": {"type": "interactive", "claim": {"type": "pure", "epsilon": "0.02"}},
    "nothing": {"type": "pure", "epsilon": "0"},
    "repeat": {"type": "repeat", "times": 3, "claim": {"type": "pure", "epsilon": "0.01"}},
    "all_of": {
        "type": "all_of",
        "claims": [
            {"type": "gaussian", "sigma": "70", "sensitivity": "1"},
            {"type": "pure", "epsilon": "0.01"},
        ],
    },
}
MARKS: Final = {"mechanisms", "filter_ended"}
"""What no step lowers."""


def amounts(scene: Scene) -> dict[str, Fraction | None]:
    """Return a dataset's totals exactly, None for an infinite one."""
    row = scene.row("census")
    over = row.get("rounded_up", {})
    return {
        name: None if text == "inf" else Fraction(text) - Fraction(over.get(name, 0)) / 10**40
        for name, text in row["totals"].items()
        if name not in MARKS
    }


@cache
def taken(policy: str) -> tuple[str, ...]:
    """Return the claims that a filter accepts."""
    return tuple(
        claim
        for claim, body in CLAIMS.items()
        if code(Scene(**POLICIES[policy]).ask(body)) == "granted"
    )


def kind_of(policy: str) -> str:
    return policy.split(maxsplit=1)[0]


def test_each_filter_and_each_claim_is_among_them() -> None:
    found = {policy: taken(policy) for policy in POLICIES}
    assert {claim for claims in found.values() for claim in claims} == set(CLAIMS)
    assert min(map(len, found.values())) >= 2
    assert sum(map(len, found.values())) > 200


def prepared(policy: str) -> Scene:
    """Return a dataset in which something was granted, and a session settled if it takes one."""
    scene = Scene(**POLICIES[policy])
    first = "noise reduction" if policy == "ex_post" else "pure"
    assert code(scene.ask(CLAIMS[first])) == "granted"
    if "brownian" in taken(policy):
        scene.run_session("40000")
    return scene


def reserve(scene: Scene, claim: Body) -> Any:
    """Reserve a claim; one that refines an answer continues the session of `prepared`."""
    named = {"continues": scene.session} if "previous" in claim else {}
    return scene.reserve({**claim, **named})


def test_void_returns_exactly_what_was_charged() -> None:
    def check_case(policy: str) -> None:
        for claim in taken(policy):
            scene = prepared(policy)
            before = amounts(scene)
            assert code(reserve(scene, CLAIMS[claim])) == "reserved"
            reserved = amounts(scene)
            assert code(scene.void()) == "voided"
            # An infinite amount never returns.
            expected = {n: None if reserved[n] is None else each for n, each in before.items()}
            assert amounts(scene) == expected

    check_each(check_case, POLICIES)


def test_void_returns_the_same_after_another_grant() -> None:
    def check_case(policy: str) -> None:
        for claim in taken(policy):
            scene = prepared(policy)
            before = amounts(scene)
            reserve(scene, CLAIMS[claim])
            reserved = amounts(scene)
            other = "noise reduction" if policy == "ex_post" else "pure"
            assert code(scene.ask(CLAIMS[other])) == "granted"
            granted = amounts(scene)
            assert code(scene.void()) == "voided"
            for name, now in amounts(scene).items():
                was, then, last = before[name], reserved[name], granted[name]
                if was is None or then is None or last is None:
                    assert now is None
                else:
                    assert now == last - (then - was), name

    check_each(check_case, POLICIES)


def test_settling_in_full_and_lapsing_return_nothing() -> None:
    def check_case(policy: str) -> None:
        for claim in taken(policy):
            scene = prepared(policy)
            reserve(scene, CLAIMS[claim])
            settled = scene.grant
            scene.begin()
            begun = amounts(scene)
            assert code(scene.settle(grant=settled)) == "settled"
            assert amounts(scene) == begun
            assert code(reserve(scene, CLAIMS[claim])) == "reserved"
            scene.begin()
            begun = amounts(scene)
            scene.tick(HOUR)
            assert code(scene.settle()) == "not_open"
            assert amounts(scene) == begun
            assert code(scene.void()) == "not_open"
            assert amounts(scene) == begun

    check_each(check_case, POLICIES)


def test_a_reservation_is_charged_what_a_plain_grant_is() -> None:
    def check_case(policy: str) -> None:
        for claim in taken(policy):
            plain, reserving = prepared(policy), prepared(policy)
            assert code(plain.ask(CLAIMS[claim])) == "granted"
            assert code(reserve(reserving, CLAIMS[claim])) == "reserved"
            if kind_of(policy) == "gdp_residue":
                # A mechanism that is no Gaussian is charged as one that dominates it, until it
                # begins.
                paid, most = amounts(plain), amounts(reserving)
                assert all((paid[n] or 0) <= (most[n] or 0) for n in paid)
                assert {n: v for n, v in paid.items() if n != "mu_squared"} == {
                    n: v for n, v in most.items() if n != "mu_squared"
                }
                reserving.begin()
            assert amounts(reserving) == amounts(plain)
            assert reserving.decided["odometers"] == plain.decided["odometers"]

    check_each(check_case, POLICIES)


def test_begin_raises_no_total() -> None:
    def check_case(policy: str) -> None:
        for claim in taken(policy):
            scene = prepared(policy)
            reserve(scene, CLAIMS[claim])
            before = amounts(scene)
            assert code(scene.begin()) == "begun"
            changed = {name for name, each in amounts(scene).items() if each != before[name]}
            assert changed <= ({"mu_squared"} if kind_of(policy) == "gdp_residue" else set())
            for name in changed:
                assert (amounts(scene)[name] or 0) <= (before[name] or 0)

    check_each(check_case, POLICIES)


# Settling a session below its maximum.

HALF: Final = Fraction(1, 2)


def of_gaussian(name: str, rho: Fraction) -> Fraction:
    """Return what a Gaussian of some rho adds to a sum."""
    if name.startswith("renyi_"):
        return Fraction(name.removeprefix("renyi_")) * rho
    twice = {"intrinsic_time", "mu_squared", "loss_time", "apart_loss_time"}
    once = {"rho", "apart_rho"}
    return (2 * rho) if name in twice else rho if name in once else Fraction(0)


def test_a_brownian_session_costs_the_variance_that_it_showed_last() -> None:
    def check_case(shown: str, claim: Body, policy: str) -> None:
        scene = prepared(policy)
        before = amounts(scene)
        if code(reserve(scene, claim)) != "reserved":
            takes_none = {"basic", "ex_post", "optimal_homogeneous", "advanced_2016"}
            assert kind_of(policy) in takes_none
            return
        reserved = amounts(scene)
        scene.begin()
        assert code(scene.settle(shown=shown)) == "settled"
        known = Fraction(1, int(claim["previous"])) if "previous" in claim else Fraction(0)
        rho = HALF * (Fraction(1, int(shown)) - known)
        for name, now in amounts(scene).items():
            was = before[name]
            if was is None:
                assert now is None
            elif (
                name in {"delta", "without_epsilon", "loss_delta", "epsilon"}
                or was == reserved[name]
            ):
                assert now == reserved[name], name
            else:
                assert now == was + of_gaussian(name, rho), name

    check_each(check_case, ["2000", "2500", "8000", "16000"], [BROWNIAN, CONTINUED], POLICIES)


LOWERED: Final = {
    "basic": {"epsilon"},
    "ex_post": {"ex_post_only"},
    "split": {"ex_post_epsilon", "loss_ex_post"},
}


def test_a_noise_reduction_costs_the_scale_that_it_showed_last() -> None:
    def check_case(shown: str, policy: str) -> None:
        scene = prepared(policy)
        before = amounts(scene)
        assert code(scene.reserve(SMALL_NOISE_REDUCTION)) == "reserved"
        scene.begin()
        begun = amounts(scene)
        assert code(scene.settle(shown=shown)) == "settled"
        kind, *beside = policy.split()
        lowered = LOWERED.get(kind, set()) | ({"epsilon"} if beside else set())
        for name, now in amounts(scene).items():
            was = before[name]
            if name in lowered and was is not None:
                assert now == was + Fraction(1, int(shown)), name
            else:
                assert now == begun[name], name

    check_each(check_case, ["50", "80", "100", "500"], POLICIES)


@pytest.mark.parametrize("policy", ["basic", "split", "zcdp_tight beside basic", "renyi"])
def test_a_delta_is_returned_by_void_alone(policy: str) -> None:
    claim = {"type": "approximate", "epsilon": "0.02", "delta": "1e-8"}
    if policy == "renyi":
        assert code(Scene(**POLICIES[policy]).reserve(claim)) == "claim_not_accepted"
        return
    name = "apart_delta" if policy == "split" else "delta"
    voided = Scene(**POLICIES[policy])
    voided.do("begin")
    voided.reserve(claim)
    assert voided.total(name) == "0.00000001"
    voided.void()
    assert voided.total(name) == "0"
    settled = Scene(**POLICIES[policy])
    settled.reserve(claim)
    settled.do("begin", "settle")
    assert settled.total(name) == "0.00000001"


# Basic composition beside a filter.


def test_what_basic_alone_let_in_ends_the_filter_for_ever() -> None:
    scene = Scene(**POLICIES["zcdp_tight beside basic"])
    claim = {"type": "pure", "epsilon": "0.6"}
    assert code(scene.reserve(claim)) == "reserved"
    assert scene.decided["ends"] == "zcdp_tight"
    assert (scene.total("rho"), scene.total("epsilon")) == ("0", "0.6")
    assert code(scene.void()) == "voided"
    assert (scene.total("epsilon"), scene.total("filter_ended")) == ("0", "1")
    assert code(scene.ask("gaussian:sigma=70,sensitivity=1")) == "exhausted"
    assert code(scene.ask("pure:0.9")) == "granted"


def test_what_basic_alone_let_in_settles_in_its_sum_alone() -> None:
    scene = Scene(**POLICIES["zcdp_tight beside basic"])
    claim = {**NOISE_REDUCTION, "epsilon": "0.8", "least": "1.25"}
    assert code(scene.reserve(claim)) == "reserved"
    scene.do("begin", "settle_lower")
    assert (scene.total("rho"), scene.total("epsilon")) == ("0", "0.025")
    assert scene.total("filter_ended") == "1"


def test_void_lets_basic_admit_again_and_settle_does_not() -> None:
    gaussian = {"type": "gaussian", "sigma": "70", "sensitivity": "1"}
    for end, left in (("void", "0"), ("settle", "1")):
        scene = Scene(**POLICIES["zcdp_tight beside basic"])
        scene.reserve(gaussian)
        assert scene.total("without_epsilon") == "1"
        scene.do(*(("void",) if end == "void" else ("begin", "settle")))
        assert scene.total("without_epsilon") == left
        admitted = code(scene.ask("pure:0.9"))
        assert admitted == ("granted" if end == "void" else "exhausted")


# gdp_residue.

BASIC: Final[Body] = {"filter": "basic", "epsilon": "1", "delta": "1e-6"}
RESIDUE: Final[Body] = {"filter": "gdp_residue", "epsilon": "1", "delta": "1e-6", "odometers": []}


def voidable(epsilon: str, times: int = 1) -> mpmath.mpf:
    """Return mu^2 of the Gaussian that dominates a pure mechanism: 2 Phi^-1(e^e / (1 + e^e))."""
    with mpmath.workdps(50):
        e = mpmath.mpf(epsilon)
        p = mpmath.exp(e) / (1 + mpmath.exp(e))
        return times * (2 * mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1)) ** 2


def is_at_least(text: str, exact: mpmath.mpf) -> bool:
    with mpmath.workdps(50):
        return bool(exact <= mpmath.mpf(text) <= exact * (1 + mpmath.mpf("1e-9")))


@pytest.mark.parametrize("epsilon", ["0.01", "0.05", "0.1"])
def test_residue_charges_a_pure_reservation_as_the_gaussian_that_dominates_it(
    epsilon: str,
) -> None:
    scene = Scene(**RESIDUE)
    assert code(scene.reserve({"type": "pure", "epsilon": epsilon})) == "reserved"
    assert is_at_least(scene.total("mu_squared"), voidable(epsilon))


def test_residue_charges_bounded_range_by_half_of_it() -> None:
    scene = Scene(**RESIDUE)
    assert code(scene.reserve({"type": "bounded_range", "eta": "0.1"})) == "reserved"
    assert is_at_least(scene.total("mu_squared"), voidable("0.05"))


def test_residue_reprices_at_begin_at_the_state_so_reached() -> None:
    pure = {"type": "pure", "epsilon": "0.05"}
    other = {"type": "gaussian", "sigma": "30", "sensitivity": "1"}
    scene, twin = Scene(**RESIDUE), Scene(**RESIDUE)
    scene.reserve(pure)
    scene.ask(other)
    before = Fraction(scene.total("mu_squared"))
    assert code(scene.begin()) == "begun"
    twin.ask(other)
    twin.ask(pure)  # its residue cost after what was granted meanwhile
    assert scene.total("mu_squared") == twin.total("mu_squared")
    assert Fraction(scene.total("mu_squared")) < before
    assert code(scene.void()) == "already_begun"


FIVE: Final[Body] = {"type": "repeat", "times": 5, "claim": {"type": "pure", "epsilon": "0.05"}}


def kept(**policy: object) -> Scene:
    """Return a reservation that fits by its residue cost alone: five, where 4.5 would fit."""
    scene = Scene(**{**RESIDUE, **policy})
    room = mpmath.mpf(scene.row("census")["budget"]["mu_squared"]) - voidable("0.05", 5) * 9 / 10
    assert code(scene.ask({"type": "gdp", "mu": mpmath.nstr(mpmath.sqrt(room), 15)})) == "granted"
    assert code(scene.reserve(FIVE)) == "reserved"
    return scene


def test_residue_returns_a_residue_cost_to_the_state_that_its_grant_left() -> None:
    scene = kept()
    left = scene.total("mu_squared")
    assert code(scene.void()) == "voided"
    assert Fraction(scene.total("mu_squared")) < Fraction(left)


def test_residue_returns_no_residue_cost_to_another_state() -> None:
    scene = kept()
    assert code(scene.ask("gaussian:sigma=5000,sensitivity=1")) == "granted"
    after = scene.total("mu_squared")
    assert code(scene.void()) == "voided"
    assert scene.total("mu_squared") == after


def test_residue_returns_a_residue_cost_once_the_state_is_the_same_again() -> None:
    scene = kept()
    first, left = scene.grant, scene.total("mu_squared")
    assert (
        code(scene.reserve({"type": "gaussian", "sigma": "5000", "sensitivity": "1"})) == "reserved"
    )
    scene.void()
    assert scene.total("mu_squared") == left
    assert code(scene.void(grant=first)) == "voided"
    assert Fraction(scene.total("mu_squared")) < Fraction(left)


def test_residue_moves_nothing_at_begin_of_what_it_charged_by_the_residue() -> None:
    scene = kept()
    left = scene.total("mu_squared")
    scene.do("begin")
    assert scene.total("mu_squared") == left
    scene.do("settle")
    assert scene.total("mu_squared") == left


def test_residue_is_asked_for_its_own_cost_before_basic_is() -> None:
    scene = kept(beside="basic")
    assert "ends" not in scene.decided
    assert scene.total("filter_ended") == "0"


def test_a_limit_of_that_filter_is_repriced_at_its_own_state() -> None:
    pure, own = {"type": "pure", "epsilon": "0.05"}, {**RESIDUE, "epsilon": "0.5"}
    limit = {name: own[name] for name in ("filter", "epsilon", "delta")}
    scene, twin = Scene(**POLICIES["zcdp"]), Scene(**POLICIES["zcdp"])
    for each in (scene, twin):
        each.limit("analyst", "ana", policy=limit)
    scene.reserve(pure)
    counted = scene.limit_row("analyst", "ana")["counted"]["totals"]["mu_squared"]
    assert is_at_least(counted, voidable("0.05"))
    before = scene.total("rho")
    scene.ask(CLAIMS["gaussian"])
    most = scene.limit_row("analyst", "ana")["counted"]["totals"]["mu_squared"]
    scene.do("begin")
    twin.ask(CLAIMS["gaussian"])
    twin.ask(pure)
    found = [each.limit_row("analyst", "ana")["counted"]["totals"] for each in (scene, twin)]
    assert Fraction(found[0]["mu_squared"]) < Fraction(most)
    assert found[0] == found[1]
    assert scene.total("rho") == twin.total("rho") > before


def test_residue_takes_a_sampler_that_is_no_gaussian_by_its_zcdp_alone() -> None:
    discrete = {**BROWNIAN, "sampler": "discrete"}
    assert code(Scene(**RESIDUE).reserve(discrete)) == "claim_not_accepted"
    assert code(Scene(**RESIDUE).reserve({**BROWNIAN, "sampler": "normal"})) == "reserved"
    tight = Scene(**POLICIES["zcdp_tight"])
    assert code(tight.reserve(discrete)) == "reserved"
    tight.begin()
    assert code(tight.settle(shown="8000")) == "settled"
    assert tight.total("rho") == "0.0000625"


# Odometers.

READ: Final[Body] = {
    "filter": "zcdp_tight",
    "epsilon": "1",
    "delta": "1e-6",
    "odometers": [
        {"type": "basic"},
        {"type": "linear", "delta": "1e-6", "y": "0.01"},
        {"type": "mixture", "delta": "1e-6", "r": "0.01"},
        {"type": "stitched", "delta": "1e-6", "v0": "0.0001"},
    ],
}


def test_odometers_count_a_reservation_at_its_maximum_until_it_is_settled() -> None:
    plain, scene = Scene(**READ), Scene(**READ)
    plain.ask("brownian:variance=8000,sensitivity=1")
    lower = plain.decided["odometers"]
    scene.reserve(BROWNIAN)
    most = scene.decided["odometers"]
    assert scene.begin().odometers == most
    scene.settle(shown="8000")
    assert scene.decided["odometers"] == lower
    assert float(lower["linear"]) < float(most["linear"])


@pytest.mark.parametrize("end", ["void", "lapse"])
def test_odometers_after_void_read_what_they_read_before_and_lapsing_moves_none(end: str) -> None:
    scene = Scene(**READ)
    scene.ask("pure:0.01")
    before = scene.decided["odometers"]
    scene.reserve(CLAIMS["pure"])
    most = scene.decided["odometers"]
    if end == "void":
        scene.void()
        assert scene.decided["odometers"] == before
    else:
        scene.tick(2 * HOUR)
        scene.void()
        assert scene.decided["odometers"] == most


def test_odometers_read_infinity_once_a_claim_was_false() -> None:
    scene = Scene(**READ)
    scene.reserve(BROWNIAN)
    scene.begin()
    scene.settle(shown="1000")
    assert code(scene.ask("pure:0.01")) == "suspended"
    assert set(scene.decided["odometers"].values()) == {"inf"}


# Limits, periods and shares.

PURE: Final[Body] = {"type": "pure", "epsilon": "0.1"}


def divided() -> Scene:
    """Return a dataset with ana in the team red, and limits for everybody."""
    scene = Scene(PURE, **BASIC)
    scene.member("ana", "analyst", team="red")
    scene.limit("dataset", pace={"part": "0.9", "period": "P1D"})
    for team in ("red", "blue"):
        scene.limit("team", team, part="0.8", pace={"part": "0.5", "period": "P1D"})
    scene.limit("analyst", "ana", part="0.5")
    return scene


def used(scene: Scene) -> dict[str, str]:
    """Return what each limit of `divided` counts."""
    rows = {
        "dataset": scene.limit_row("dataset", ""),
        "red": scene.limit_row("team", "red"),
        "blue": scene.limit_row("team", "blue"),
        "ana": scene.limit_row("analyst", "ana"),
    }
    return {
        f"{name} {kind}": row[kind]["totals"]["epsilon"]
        for name, row in rows.items()
        for kind in ("counted", "paced")
        if kind in row
    }


ALL_CHARGED: Final = {
    "dataset paced": "0.1",
    "red counted": "0.1",
    "red paced": "0.1",
    "ana counted": "0.1",
}


def test_void_lowers_each_limit_that_was_charged() -> None:
    scene = divided()
    scene.do("reserve")
    assert used(scene) == ALL_CHARGED
    scene.void()
    assert used(scene) == dict.fromkeys(ALL_CHARGED, "0")


def test_settle_lowers_each_limit_by_what_was_not_shown() -> None:
    scene = divided()
    scene.reserve(NOISE_REDUCTION)
    scene.do("begin", "settle_lower")
    assert used(scene) == dict.fromkeys(ALL_CHARGED, "0.025")


@pytest.mark.parametrize("to", ["blue", None])
def test_a_refund_goes_to_the_team_that_was_charged(to: str | None) -> None:
    scene = divided()
    scene.do("reserve")
    fields = {} if to is None else {"team": to}
    scene.member("ana", "analyst", **fields)
    scene.ask("pure:0.05")
    with_new_team = used(scene)
    assert with_new_team["red counted"] == "0.1"
    scene.void()
    after = used(scene)
    assert after["red counted"] == "0"
    assert after["red paced"] == "0"
    assert after["ana counted"] == "0.05"
    if to is not None:
        assert after["blue counted"] == with_new_team["blue counted"] == "0.05"


def test_a_refund_of_an_engines_reservation_goes_to_the_analyst() -> None:
    scene = divided()
    scene.member("engine-1", "engine")
    scene.reserve(via="engine-1")
    scene.void(analyst="owner")
    assert used(scene) == dict.fromkeys(ALL_CHARGED, "0")


def test_a_period_gets_nothing_back_of_an_earlier_one() -> None:
    scene = divided()
    scene.reserve(reserve={"until": "P3D"})
    scene.tick(24 * HOUR)
    scene.ask("pure:0.2")
    scene.void()
    after = used(scene)
    assert (after["dataset paced"], after["red paced"]) == ("0.2", "0.2")
    assert (after["red counted"], after["ana counted"]) == ("0.2", "0.2")
    assert scene.total() == "0.2"


def test_a_period_gets_back_what_was_charged_within_it() -> None:
    scene = divided()
    scene.reserve(reserve={"until": "P3D"})
    scene.tick(24 * HOUR - 1)
    scene.void()
    assert used(scene) == dict.fromkeys(ALL_CHARGED, "0")


def test_a_default_gets_back_what_its_analyst_was_charged() -> None:
    scene = Scene(PURE, **BASIC)
    for name in ("ana", "ben"):
        scene.member(name, "analyst", team="red")
    scene.limit("each", "red", part="0.3")
    scene.reserve()
    scene.ask("pure:0.2", analyst="ben")
    scene.void()
    counted = {
        name: scene.limit_row("each", name, "red")["counted"]["totals"]["epsilon"]
        for name in ("ana", "ben")
    }
    assert counted == {"ana": "0", "ben": "0.2"}
    assert code(scene.ask("pure:0.3")) == "granted"


def test_a_removed_limit_gets_its_refund() -> None:
    scene = divided()
    scene.do("reserve")
    scene.limit("analyst", "ana")
    scene.void()
    scene.limit("analyst", "ana", part="0.5")
    assert code(scene.ask("pure:0.5")) == "granted"  # nothing of the limit is used


def test_a_limit_that_counts_another_filter_gets_nothing() -> None:
    scene = divided()
    scene.do("reserve")
    scene.limit("analyst", "ana", policy={"filter": "zcdp", "rho": "0.1"})
    scene.ask("pure:0.05")
    before = scene.limit_row("analyst", "ana")["counted"]
    scene.void()
    assert scene.limit_row("analyst", "ana")["counted"] == before


def test_a_limit_settles_by_its_own_filter() -> None:
    scene = Scene(**BASIC)
    scene.limit("analyst", "ana", policy={"filter": "zcdp", "rho": "0.1"})
    scene.reserve(NOISE_REDUCTION)
    before = scene.limit_row("analyst", "ana")["counted"]
    scene.do("begin", "settle_lower")
    assert scene.total() == "0.025"
    assert scene.limit_row("analyst", "ana")["counted"] == before  # charged as a pure bound
    tight = Scene(**POLICIES["zcdp_tight"])
    tight.limit("analyst", "ana", policy={"filter": "basic", "epsilon": "0.5"})
    tight.reserve(NOISE_REDUCTION)
    rho = tight.total("rho")
    tight.do("begin", "settle_lower")
    assert tight.total("rho") == rho
    assert tight.limit_row("analyst", "ana")["counted"]["totals"]["epsilon"] == "0.025"


def share_of(scene: Scene, scope: str, name: str) -> str:
    return str(scene.limit_row(scope, name)["used"]["totals"]["epsilon"])


def test_a_share_gets_back_what_it_was_charged() -> None:
    scene = Scene(PURE, **BASIC)
    scene.member("ana", "analyst", team="red")
    scene.limit("team", "red", reserved="0.4")
    scene.limit("analyst", "ana", reserved="0.2")
    scene.do("reserve")
    assert (share_of(scene, "team", "red"), share_of(scene, "analyst", "ana")) == ("0.1", "0.1")
    assert code(scene.ask("pure:0.61", analyst="eve")) == "exhausted"
    scene.void()
    assert (share_of(scene, "team", "red"), share_of(scene, "analyst", "ana")) == ("0", "0")
    assert code(scene.ask("pure:0.61", analyst="eve")) == "exhausted"
    assert code(scene.ask("pure:0.6", analyst="eve")) == "granted"
    assert code(scene.ask("pure:0.4")) == "granted"  # the promise holds


def elsewhere() -> Scene:
    """Return the counterexample: ana's share lies in the team red; she is in the team blue now.

    Her grant of 0.4 uses her share, that of red and that of blue; others take 0.6.
    """
    scene = Scene({"type": "pure", "epsilon": "0.4"}, **BASIC)
    scene.member("ana", "analyst", team="red")
    scene.limit("team", "red", reserved="0.4")
    scene.limit("analyst", "ana", reserved="0.4")
    scene.member("ana", "analyst", team="blue")
    scene.limit("team", "blue", reserved="0.4")
    scene.do("reserve")
    return scene


def test_a_share_gets_nothing_back_that_could_not_be_promised_again() -> None:
    scene = elsewhere()
    shares = ("team", "red"), ("analyst", "ana"), ("team", "blue")
    assert [share_of(scene, *each) for each in shares] == ["0.4", "0.4", "0.4"]
    assert code(scene.ask("pure:0.6", analyst="eve")) == "granted"
    assert code(scene.void()) == "voided"
    assert scene.total() == "0.6"
    assert [share_of(scene, *each) for each in shares] == ["0.4", "0.4", "0.4"]
    assert code(scene.ask("pure:0.4", analyst="eve")) == "granted"  # it is everybody's now


def test_a_share_elsewhere_gets_it_back_where_every_promise_holds() -> None:
    scene = elsewhere()
    assert code(scene.ask("pure:0.2", analyst="eve")) == "granted"
    scene.void()
    shares = ("team", "red"), ("analyst", "ana"), ("team", "blue")
    assert scene.total() == "0.2"
    assert [share_of(scene, *each) for each in shares] == ["0", "0", "0"]


def test_a_share_that_was_promised_once_more_gets_nothing_of_an_earlier_one() -> None:
    scene = Scene(PURE, **BASIC)
    scene.member("ana", "analyst")
    scene.limit("analyst", "ana", reserved="0.3")
    scene.do("reserve")
    scene.limit("analyst", "ana")
    scene.limit("analyst", "ana", reserved="0.3")
    scene.ask("pure:0.2")
    assert share_of(scene, "analyst", "ana") == "0.2"
    scene.void()
    assert share_of(scene, "analyst", "ana") == "0.2"
    assert scene.total() == "0.2"


ENDS: Final[dict[str, Callable[[Scene], object]]] = {
    "settled": lambda scene: scene.do("begin", "settle"),
    "lapsed": lambda scene: scene.do("begin", "to_deadline"),
}


@pytest.mark.parametrize("end", ENDS)
def test_limits_bear_the_whole_maximum_of_what_ran(end: str) -> None:
    scene = divided()
    scene.do("reserve")
    ENDS[end](scene)
    scene.ask("pure:5")
    assert used(scene) == ALL_CHARGED
