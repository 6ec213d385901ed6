"""What a cap admits, however many prices were looked at before."""

from __future__ import annotations

from decimal import Decimal

from accountant.claims import CheckedClaim, Pure
from accountant.claims.price import price
from accountant.policy import Policy, resolve
from accountant.policy.compiled_policy import CompiledPolicy, open_plan


def capped() -> CompiledPolicy:
    """Return a policy that no other test has asked of."""
    policy = resolve(Policy(filter="basic", epsilon="1", most_per_request="0.1"))
    return CompiledPolicy(policy, open_plan(policy).capacity)


def test_each_price_gets_its_own_answer() -> None:
    plan = capped()
    assert plan.cap is not None
    for _ in range(3):
        for i in range(1, 300):
            # Nothing else keeps this price, so that the next may stand at the same address.
            epsilon = Decimal(i % 200 + 1) / 1000
            fresh = price(CheckedClaim(Pure(str(epsilon))), plan.priced)
            assert plan.cap.admits(fresh) == (epsilon <= Decimal("0.1"))
            assert plan.cap.admits(fresh) == (epsilon <= Decimal("0.1"))


def test_a_cap_remembers_few_prices() -> None:
    plan = capped()
    assert plan.cap is not None
    asked = [price(CheckedClaim(Pure(str(i))), plan.priced) for i in range(1, 10)]
    assert not any(map(plan.cap.admits, asked * 100))
    assert len(plan.cap.known) == len(asked)
    for i in range(10, 500):
        plan.cap.admits(price(CheckedClaim(Pure(f"0.{i}")), plan.priced))
        assert len(plan.cap.known) <= 64
