"""Claims that a dataset's filter does not take, or charges more than they lose."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from accountant.advice.preview import Preview
from accountant.amounts import INFINITE
from accountant.claims import Claim, SubsampledGaussian, atoms, check_claim, plain
from accountant.claims.price import is_too_much, price
from accountant.claims.text import claim_text
from accountant.display.numbers import symbol
from accountant.display.odometers import COUNT_SAMPLING
from accountant.display.other_filter import open_command
from accountant.errors import BudgetError
from accountant.policy import Policy, resolve
from accountant.policy.compiled_policy import open_plan
from accountant.records import Decision
from accountant.records.outcomes import Reason

_BY_COST: Final = {Reason.EXHAUSTED, Reason.ABOVE_CAP, Reason.CLAIM_NOT_ACCEPTED}


def is_sampled(claim: Claim | None) -> bool:
    """Tell whether a mechanism of a claim reads a random sample."""
    return claim is not None and any(
        isinstance(plain(atom), SubsampledGaussian) for atom, _ in atoms(claim)
    )


def sampling_words(refused: Decision | Preview, policy: Policy | None, claim: Claim | None) -> str:
    """Return that a filter does not count sampling, and which filter does; "" where it matters not.

    Args:
        policy: of the dataset. `claim`: the refused one.
    """
    if policy is None or claim is None or policy.filter in COUNT_SAMPLING:
        return ""
    if refused.reason not in _BY_COST or not is_sampled(claim):
        return ""
    as_if = (
        "takes no sampled Gaussian"
        if refused.reason is Reason.CLAIM_NOT_ACCEPTED
        else "does not count sampling: it charges the claim as if the mechanism had read all the "
        "data"
    )
    *first, last = sorted(COUNT_SAMPLING)
    command = open_command(policy, "--for", claim_text(claim))
    return (
        f"Filter {policy.filter} {as_if}. Filters {', '.join(first)} and {last} count it: "
        f"`{command}` proposes one."
    )


def not_accepted_words(policy: Policy | None, claim: Claim | None) -> str:
    """Return which rule of a dataset a claim breaks that it never grants, "" if it is not known."""
    if policy is None or claim is None:
        return ""
    with suppress(BudgetError):  # a refusal is shown even where its claim cannot be priced here
        checked, plan = check_claim(claim), open_plan(resolve(policy))
        if checked.only_for and checked.only_for != policy.neighbours:
            return (
                f"The claim holds for neighbours {checked.only_for} alone, and the dataset's "
                f"policy has {policy.neighbours}."
            )
        needs = plan.kind.needs
        if is_too_much(checked, needs):
            return "The batch has too many unlike mechanisms to be priced at once."
        amounts = dict(zip(needs, price(checked, needs).amounts, strict=False))
        unbounded = [symbol(name) for name, amount in amounts.items() if amount == INFINITE]
        if unbounded:
            names = " and ".join(unbounded)
            return f"Filter {policy.filter} adds up {names}, and this claim does not bound it."
    return ""
