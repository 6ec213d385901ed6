"""Filters alone: one decision on a claim with a known price, after different histories."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from accountant.amounts import Units
from accountant.claims import Repeat, check_claim
from accountant.claims.price import Price, price
from accountant.claims.text import parse_claim
from accountant.filters import FILTERS
from accountant.policy import Policy, resolve
from accountant.policy.compiled_policy import CompiledPolicy, open_plan
from accountant.records import decode_policy
from benchmarks.measure import Row, Scale, best_of

_EPSILON = {"epsilon": "1", "delta": "1e-6"}
_POLICIES: dict[str, dict[str, object]] = {
    "zcdp": {"rho": "0.05", "delta": "1e-6"},
    "renyi": {**_EPSILON, "order": "22"},
    "renyi_weighted": {**_EPSILON, "orders": ["16", "22", "32", "64"]},
    "renyi_mixture": {**_EPSILON, "orders": ["16", "22", "32", "64"]},
    "split": {**_EPSILON, "epsilon_ex_post": "1"},
}
# The spent parts of the budget at which the decisions are timed.
_SPENT = (0.0, 0.3, 0.9, 0.999)
_DIFFERENT = 64  # different claims in turn, so that none profits from the one before it
_AT_MOST = 20
_AT_MOST_RESIDUE = 30  # it solves an equation; the others add
_MICROSECONDS = 1e6


def _plan(name: str) -> CompiledPolicy:
    own = {field: parameter.example for field, parameter in FILTERS[name].parameters.items()}
    wire = {"filter": name, **_POLICIES.get(name, _EPSILON | own)}
    decoded: Policy = decode_policy(msgspec.json.encode(wire))
    return open_plan(resolve(decoded))


def _after(plan: CompiledPolicy, kind: str, part: float) -> tuple[Units, ...]:
    """Return totals after small claims have used a part of the budget."""
    nothing: tuple[Units, ...] = (0,) * plan.width
    small = parse_claim(f"{kind}:1e-4")
    most = plan.kind.count(plan.capacity, nothing, price(check_claim(small), plan.priced)) or 0
    times = min(int(part * most), 1_000_000)
    if not times:
        return nothing
    many = price(check_claim(Repeat(small, times)), plan.priced)
    spent = plan.kind.charge(plan.capacity, nothing, many)
    assert spent is not None
    return spent


def _microseconds(
    plan: CompiledPolicy, spent: tuple[Units, ...], asked: list[Price], count: int
) -> float:
    charge, capacity = plan.kind.charge, plan.capacity

    def work() -> None:
        totals, taken = spent, 0
        while taken < count:
            for one in asked:
                # A claim that does not fit is refused; the others continue from the same state.
                totals = charge(capacity, totals, one) or spent
            taken += len(asked)

    return best_of(5, work) / count * _MICROSECONDS


def rows(scale: Scale) -> Iterator[Row]:
    """Yield the time of one decision of each filter, at its slowest state."""
    count = scale.of(10_000) // _DIFFERENT * _DIFFERENT
    for name in FILTERS:
        plan = _plan(name)
        kind = "ex_post" if name == "ex_post" else "pure"
        slowest, at = 0.0, 0.0
        claims = [parse_claim(f"{kind}:{1 + n / 100:.2f}e-4") for n in range(_DIFFERENT)]
        asked = [price(check_claim(claim), plan.priced) for claim in claims]
        for part in _SPENT:
            took = _microseconds(plan, _after(plan, kind, part), asked, count)
            if took > slowest:
                slowest, at = took, part
        yield Row(
            name=f"one decision, filter {name}",
            value=slowest,
            unit="us",
            at_most=_AT_MOST_RESIDUE if name == "gdp_residue" else _AT_MOST,
            note=f"slowest of {len(_SPENT)} states: {at:.1%} spent",
        )
