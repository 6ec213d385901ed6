"""What a step of a reservation returns of a dataset's totals, by the rules of the live ledger."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from accountant.amounts import Units
from accountant.claims import Brownian, CheckedClaim, ExPost
from accountant.filters import BesideBasic
from accountant.filters.settlement import (
    returned_by_payment,
    returned_by_session,
    returned_by_voiding,
    settled_ex_post,
)
from accountant.policy.compiled_policy import CompiledPolicy


def by_paying(plan: CompiledPolicy, claim: ExPost, paid: Decimal | Fraction) -> tuple[Units, ...]:
    """Return what an ex-post claim returns that paid less than its bound."""
    beside = isinstance(plan.kind, BesideBasic)
    settled = settled_ex_post(settles_ex_post=plan.kind.settles_ex_post, beside=beside)
    return returned_by_payment(plan.sums, Fraction(claim.epsilon), Fraction(paid), settled)


def by_showing(plan: CompiledPolicy, claim: Brownian, shown: str) -> tuple[Units, ...]:
    """Return what a Brownian session returns that ended at a variance."""
    return returned_by_session(plan.sums, claim, shown, frozenset())


def by_voiding(
    plan: CompiledPolicy,
    claim: CheckedClaim,
    charged: tuple[Units, ...],
    *,
    same_state: bool = False,
) -> tuple[Units, ...]:
    """Return what a reservation returns that never began."""
    return returned_by_voiding(plan.sums, claim, charged, same_state=same_state)
