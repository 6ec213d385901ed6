"""What was released before a dataset's opening, as its filter charges it."""

from __future__ import annotations

from accountant.claims import Claim, check_claim
from accountant.claims.price import price
from accountant.errors import RequestInvalid
from accountant.policy.compiled_policy import CompiledPolicy


def check_spent_before(plan: CompiledPolicy, claim: Claim) -> None:
    """Check that a claim is one which the filter charges first of all.

    Raises: RequestInvalid: naming the claim.
    """
    checked, kind = check_claim(claim), plan.kind
    if checked.only_for and checked.only_for != plan.policy.neighbours:
        rule = f"must be a claim for neighbours {plan.policy.neighbours}"
        raise RequestInvalid("claim", rule, checked.only_for)
    nothing = (0,) * len(kind.state)
    if kind.charge(plan.capacity, nothing, price(checked, plan.priced)) is None:
        rule = f"must fit the policy's budget under filter {kind.name}"
        raise RequestInvalid("claim", rule, "a larger one, or one without a price there")
