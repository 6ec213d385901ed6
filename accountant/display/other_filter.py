"""The filter that would take a claim which the dataset's own filter never grants."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from typing import Final

from msgspec import UNSET

from accountant.advice.choose_filter import FilterChoice
from accountant.advice.preview import Preview
from accountant.advice.propose_filter import Proposal, other_filter
from accountant.claims import Claim
from accountant.claims.text import claim_text
from accountant.display.numbers import spent_percent
from accountant.errors import BudgetError
from accountant.policy import Policy, parameter_text
from accountant.policy.cap import WITH_SLACK
from accountant.records import Decision
from accountant.records.outcomes import Reason
from accountant.records.request_names import claim_of

_BY_FILTER: Final = {Reason.EXHAUSTED, Reason.ABOVE_CAP, Reason.CLAIM_NOT_ACCEPTED}
_CHOSEN: Final = ("epsilon_each", "order", "orders")


def may_need_other_filter(refused: Decision | Preview) -> bool:
    """Tell whether nothing like a refused request fits, so another filter may be needed."""
    return refused.reason in _BY_FILTER and refused.fits is None and refused.level is None


def other_filter_words(
    refused: Decision | Preview, policy: Policy, claim: Claim | None = None
) -> str:
    """Return the filter that would take a claim, its share of the budget, and what to do, else "".

    Args:
        policy: of the dataset.
        claim: the refused one; left out, that of the decision's request.
    """
    if not may_need_other_filter(refused):
        return ""
    if claim is None and isinstance(refused, Decision):
        claim = claim_of(refused)
    found = None
    with suppress(BudgetError):  # a refusal is shown even where no advice is possible
        found = None if claim is None else other_filter(policy, claim)
    if found is None:
        return ""
    return (
        f"Filter {policy.filter} never grants it, however much remains. With the same budget, "
        f"filter {chosen_words(found.choice)} would take it for {share_words(found)} of the "
        "budget. A filter is fixed at the opening: open another dataset with "
        f"`{open_command(policy, *open_options(chosen_fields(found.choice)))}`."
    )


def share_words(proposal: Proposal) -> str:
    """Return the part of a new budget that one request uses, rounded up: `6.6 %`."""
    return spent_percent(Decimal(math.ceil(proposal.part * 1000)) / 1000)


def chosen_words(choice: FilterChoice) -> str:
    """Return a filter, with the parameters chosen for it: `renyi at order 4`."""
    return f"{choice.name} at {parameters(choice)}" if choice.chosen else choice.name


def parameters(choice: FilterChoice) -> str:
    """Return the parameters that were chosen for a filter, in words; "" if none were."""
    policy = choice.policy
    if not choice.chosen:
        return ""
    if policy.epsilon_each is not UNSET:
        return f"epsilon {policy.epsilon_each} each"
    if policy.order is not UNSET:
        return f"order {policy.order}"
    orders = policy.orders or ()
    return f"order{'s' * (len(orders) > 1)} {', '.join(orders)}"


def chosen_fields(choice: FilterChoice) -> dict[str, str]:
    """Return a filter and the parameters chosen for it, as fields of a policy in text."""
    fields = {"filter": choice.name}
    for field in _CHOSEN if choice.chosen else ():
        value = getattr(choice.policy, field)
        if value is not UNSET:
            fields[field] = parameter_text(value)
    return fields


def proposal_words(found: Proposal, claim: Claim, count: int | None) -> str:
    """Return which filter is proposed for requests, and how many the budget admits.

    Args:
        count: how many fit the plan to open, which may have a ceiling and more than the filter;
            None for any number.
    """
    fits = "any number" if count is None else f"{count:,}"
    return (
        f"For {claim_text(claim)}: filter {chosen_words(found.choice)}. The budget admits {fits} "
        f"of them, and each uses {share_words(found)} of it."
    )


def proposed_fields(found: Proposal) -> dict[str, str]:
    """Return the fields of a policy that a proposal fixes, in text."""
    fields = chosen_fields(found.choice)
    if found.delta_for_claims is not None:
        fields["delta_for_claims"] = found.delta_for_claims
    cap = math.ceil(found.part * 10 / WITH_SLACK)
    if cap > 1:  # the usual cap would refuse the expected request
        fields["most_per_request"] = f"0.{cap}" if cap < 10 else "1"
    return fields


def open_command(policy: Policy, *options: str) -> str:
    """Return the command that opens another dataset with a policy's budget and some options."""
    budget = ["--epsilon", policy.epsilon or "1"]
    budget += ["--delta", policy.delta if Decimal(policy.delta) else "1e-6"]
    return shlex.join(["accountant", "dataset", "open", "NAME", *budget, *options])


def open_options(fields: Mapping[str, str]) -> list[str]:
    """Return fields of a policy as options of `accountant dataset open`."""
    return [
        word for field, text in fields.items() for word in (f"--{field.replace('_', '-')}", text)
    ]
