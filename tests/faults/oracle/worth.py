"""The cost of a claim in each sum, exact or with 60 digits: docs/theory.md, sections 1 and 2."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from tests.faults.oracle.amounts import INFINITE, SLACK, Exact, Range, cost_range, mp, real
from tests.faults.oracle.renyi import curve

Atom = tuple[tuple[str, str], ...]
"""A claim of a single mechanism: its fields with their texts, hashable."""

WITH_EPSILON: Final = {"pure", "approximate", "probabilistic", "randomized_response", "ex_post"}
GAUSSIAN: Final = {"gdp", "gaussian", "subsampled_gaussian", "brownian"}


def atoms(claim: dict[str, Any], times: int = 1) -> Iterator[tuple[Atom, int]]:
    """Yield each single mechanism of a claim, with its number of runs."""
    if claim["type"] == "repeat":
        yield from atoms(claim["claim"], times * claim["times"])
    elif claim["type"] == "all_of":
        for part in claim["claims"]:
            yield from atoms(part, times)
    elif claim["type"] == "interactive":
        yield tuple(sorted((claim["claim"] | {"interactive": "yes"}).items())), times
    else:
        yield tuple(sorted(claim.items())), times


def is_sampled(claim: dict[str, Any]) -> bool:
    """Return whether some mechanism of a claim runs on a sample."""
    return any(dict(atom)["type"] == "subsampled_gaussian" for atom, _ in atoms(claim))


def epsilon(claim: dict[str, str]) -> Fraction | None:
    """Return the bound on the loss of the pure part, without its delta."""
    if claim["type"] in WITH_EPSILON:
        return Fraction(claim["epsilon"])
    if claim["type"] == "laplace":
        return Fraction(claim["sensitivity"]) / Fraction(claim["scale"])
    if claim["type"] == "bounded_range":
        return Fraction(claim["eta"])
    return None


def rho(claim: dict[str, str]) -> Exact:
    """Return the column rho in the table of claims."""
    kind, bound = claim["type"], epsilon(claim)
    if kind in WITH_EPSILON:
        e = real(bound)
        return e * mp.tanh(e / 2) if e else Fraction(0)
    if kind == "laplace":
        e = real(bound)
        return mp.expm1(-e) + e if e else Fraction(0)
    if kind == "bounded_range":
        return Fraction(claim["eta"]) ** 2 / 8
    if kind in {"zcdp", "approximate_zcdp"}:
        return Fraction(claim["rho"])
    if kind == "gdp":
        return Fraction(claim["mu"]) ** 2 / 2
    sensitivity = Fraction(claim["sensitivity"])
    if kind == "brownian":
        precision = 1 / Fraction(claim["variance"])
        if "previous" in claim:
            precision -= 1 / Fraction(claim["previous"])
        return sensitivity**2 / 2 * precision
    return sensitivity**2 / (2 * Fraction(claim["sigma"]) ** 2)


def loss(claim: dict[str, str]) -> dict[str, Exact] | None:
    """Return the bound on the loss itself that odometers add up; None without one."""
    delta, bound = Fraction(claim.get("delta", "0")), epsilon(claim)
    if not delta:
        without = INFINITE if bound is None else bound
        return {"time": _twice(rho(claim)), "epsilon": without, "delta": Fraction(0)}
    if claim["type"] == "approximate_zcdp" or not bound or "interactive" in claim:
        return None
    beyond: Exact = delta
    if claim["type"] == "approximate":
        beyond, bound = 2 * real(delta) / -mp.expm1(-real(bound)), 2 * bound
    elif claim["type"] == "ex_post":
        beyond = real(delta) * (1 + mp.exp(-real(bound)))
    if beyond >= 1:
        return None
    return {"time": bound**2, "epsilon": bound, "delta": beyond}


def _twice(value: Exact) -> Exact:
    return 2 * value


def _mean(bound: Exact) -> Exact:
    if bound == INFINITE or not bound:
        return bound
    e = real(bound)
    return e * mp.expm1(e) / 2


def response(claim: dict[str, str]) -> Fraction | None:
    """Return the epsilon of the randomized response with the same cost to a Gaussian budget."""
    found = epsilon(claim)
    return found / 2 if found is not None and claim["type"] == "bounded_range" else found


def _is_gaussian(claim: dict[str, str]) -> bool:
    """Return whether Gaussian noise is added; a discrete Gaussian is none, and obeys zCDP."""
    return claim["type"] in GAUSSIAN and claim.get("sampler") != "discrete"


def _dominating(claim: dict[str, str]) -> Exact:
    """Return mu^2 of a Gaussian that dominates a mechanism: of equal total variation, if pure."""
    if _is_gaussian(claim):
        return 2 * rho(claim)
    bound = response(claim)
    if bound is None or not bound:
        return INFINITE if bound is None else bound
    # Every digit of tanh(epsilon/2) near 1 counts: 1 - tanh(epsilon/2) = 2/(1 + e^epsilon).
    with mp.workdps(60 + int(bound)):
        return (2 * mp.sqrt(2) * mp.erfinv(mp.tanh(real(bound) / 2))) ** 2


def _or_infinite(value: Exact) -> Exact:
    return INFINITE if value is None else value


def _of_loss(name: str) -> Callable[[dict[str, str]], Exact]:
    def of(claim: dict[str, str]) -> Exact:
        found = loss(claim)
        if found is None:
            return INFINITE
        if name == "shift":
            return -mp.log1p(-real(found["delta"])) if found["delta"] else Fraction(0)
        if name == "epsilon_squared":
            bound = found["epsilon"]
            return bound if bound == INFINITE else bound**2
        if name == "kl_mean":
            return _mean(found["epsilon"])
        return found[name]

    return of


def _ex_post(field: str, otherwise: Exact) -> Callable[[dict[str, str]], Exact]:
    def of(claim: dict[str, str]) -> Exact:
        return Fraction(claim.get(field, "0")) if claim["type"] == "ex_post" else otherwise

    return of


def _time(claim: dict[str, str]) -> Exact:
    return Fraction(claim["epsilon"]) ** 2 if claim["type"] in WITH_EPSILON else 2 * rho(claim)


def _square(claim: dict[str, str]) -> Exact:
    found = epsilon(claim)
    return INFINITE if found is None else found**2


_SUMS: Final[dict[str, Callable[[dict[str, str]], Exact]]] = {
    "epsilon": lambda claim: _or_infinite(epsilon(claim)),
    "pure_epsilon": lambda claim: _or_infinite(response(claim)),
    "delta": lambda claim: Fraction(claim.get("delta", "0")),
    "rho": rho,
    "intrinsic_time": _time,
    "epsilon_squared": _square,
    "kl_mean": lambda claim: _mean(_or_infinite(epsilon(claim))),
    "mu_squared": lambda claim: 2 * rho(claim) if _is_gaussian(claim) else INFINITE,
    "dominating_mu_squared": _dominating,
    "loss_time": _of_loss("time"),
    "loss_epsilon": _of_loss("epsilon"),
    "loss_epsilon_squared": _of_loss("epsilon_squared"),
    "loss_kl_mean": _of_loss("kl_mean"),
    "loss_delta": _of_loss("delta"),
    "loss_shift": _of_loss("shift"),
    "ex_post_epsilon": _ex_post("epsilon", Fraction(0)),
    "ex_post_delta": _ex_post("delta", Fraction(0)),
    "ex_post_only": _ex_post("epsilon", INFINITE),
    "loss_ex_post": _ex_post("epsilon", Fraction(0)),
    "loss_ex_post_delta": _ex_post("delta", Fraction(0)),
}


@lru_cache(maxsize=65_536)
def exact(atom: Atom, name: str) -> Exact:
    """Return the cost of one mechanism in a sum, before rounding."""
    claim = dict(atom)
    if name.startswith("apart_"):
        return Fraction(0) if claim["type"] == "ex_post" else exact(atom, name[len("apart_") :])
    if name.startswith("within_"):
        bound = epsilon(claim)
        if bound is None or bound > Fraction(name[len("within_") :]):
            return INFINITE
        return Fraction(1 if bound else 0)
    if name.startswith("renyi_"):
        if Fraction(claim.get("delta", "0")):
            return INFINITE
        return curve(claim, epsilon(claim), rho(claim), name[len("renyi_") :])
    return _SUMS[name](claim)


@lru_cache(maxsize=65_536)
def adds(atom: Atom, name: str) -> Range:
    """Return the permitted charge of one mechanism in a sum."""
    # -ln(1 - delta) of a delta near 1e-40 is right to 18 digits: docs/decisions/0012.
    slack = SLACK * 11 if name.endswith("loss_shift") else SLACK
    return cost_range(exact(atom, name), slack)


def price(claim: dict[str, Any], names: tuple[str, ...]) -> dict[str, Range]:
    """Return the permitted charges of a claim in each sum: a batch costs the sum of its parts."""
    parts = list(atoms(claim))
    found = {}
    for name in names:
        low: float = 0
        high: float = 0
        for atom, times in parts:
            least, most = adds(atom, name)
            # Python cannot add a large integer to a float that is infinite.
            unbounded = INFINITE in (low, least)
            low = INFINITE if unbounded else low + least * times
            high = INFINITE if unbounded else high + most * times
        found[name] = low, high
    return found
