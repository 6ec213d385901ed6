"""Adjudication alone: from a decoded request to the decision, with every odometer."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from accountant.claims import check_claim
from accountant.claims.text import parse_claim
from accountant.dataset_ledger import DatasetLedger
from accountant.ledger.adjudicate import adjudicate
from accountant.policy import Policy, resolve
from accountant.policy.compiled_policy import CompiledPolicy, open_plan
from accountant.records import decode_policy
from benchmarks.measure import Row, Scale, best_of

_ODOMETERS = (
    {"type": "basic"},
    {"type": "linear", "delta": "1e-6", "y": "0.1"},
    {"type": "mixture", "delta": "1e-6", "r": "0.1"},
    {"type": "one_sided_mixture", "delta": "1e-6", "r": "0.1"},
    {"type": "stitched", "delta": "1e-6", "v0": "1e-12"},
)
_FILTERS = {
    "basic": {"epsilon": "1000"},
    "fully_adaptive": {"epsilon": "1000", "delta": "1e-6"},
    "zcdp": {"rho": "1000", "delta": "1e-6"},
    "zcdp_tight": {"epsilon": "1000", "delta": "1e-6"},
}
_MICROSECONDS = 1e6


def _plan(policy: object) -> CompiledPolicy:
    decoded: Policy = decode_policy(msgspec.json.encode(policy))
    return open_plan(resolve(decoded))


def _past(plan: CompiledPolicy, requests: int) -> DatasetLedger:
    """Return a ledger with this number of decided requests."""
    ledger = DatasetLedger.opened("census", plan, 0)
    claim = check_claim(parse_claim("pure:0.0001"))
    for at in range(requests):
        ledger, _ = adjudicate(ledger, claim, "person", "add_remove", at)
    return ledger


def _microseconds(ledger: DatasetLedger, count: int) -> float:
    claim = check_claim(parse_claim("pure:0.0001"))

    def work() -> None:
        after = ledger
        for at in range(count):
            after, _ = adjudicate(after, claim, "person", "add_remove", at)

    return best_of(7, work) / count * _MICROSECONDS


def rows(scale: Scale) -> Iterator[Row]:
    """Yield the time of one adjudication under each policy."""
    count = scale.of(20_000)
    default = {"epsilon": "1000", "delta": "1e-6"}
    for past in (10, scale.of(1_000_000)):
        yield Row(
            name=f"adjudication, default policy, {past:,} past requests",
            value=_microseconds(_past(_plan(default), past), count),
            unit="us",
            at_most=5,
        )
    slowest, named = 0.0, ""
    for name, budget in _FILTERS.items():
        for odometer in _ODOMETERS:
            plan = _plan({"filter": name, **budget, "odometers": [odometer]})
            took = _microseconds(_past(plan, 10), count)
            if took > slowest:
                slowest, named = took, f"{name} with {odometer['type']}"
    yield Row(
        name="adjudication, slowest of 4 filters x 5 odometers",
        value=slowest,
        unit="us",
        at_most=10,
        note=named,
    )
    every = _plan({**default, "odometers": list(_ODOMETERS)})
    yield Row(
        name="adjudication, default filter with all 5 odometers",
        value=_microseconds(_past(every, 10), count),
        unit="us",
        at_most=10,
    )
