"""What an owner fixes for ever by opening a dataset, as questions with the policy's answers."""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from accountant.display.numbers import unspent_percent
from accountant.display.requested import requested_words
from accountant.display.times import moment
from accountant.filters import FILTERS
from accountant.limits.apply import allows_parts, allows_reserved_shares
from accountant.policy import resolve
from accountant.policy.compiled_policy import CompiledPolicy, open_plan
from accountant.records import Decision
from accountant.records.request_names import names_in_request
from accountant.views.datasets import DatasetView

_OTHER_FILTER: Final = "--filter zcdp_tight"


def closing_words(view: DatasetView) -> str:
    """Return what the closing of an open dataset ends for ever, to ask back before it."""
    rest = unspent_percent(view.spent_ratio)
    return (
        f"a closing is for ever. Dataset {view.dataset} grants nothing more then, "
        f"{rest} of its budget is lost, and no other dataset can have its name"
    )


def remarking_words(dataset: str, number: int, decision: Decision | None) -> str:
    """Return what a remark is about, to ask back before it.

    Args:
        decision: that of the number, None where it cannot be read.
    """
    about = f"decision {number} of dataset {dataset}"
    found = ", which you cannot read" if decision is None else f": {_decision_words(decision)}"
    return f"a remark stays public for ever. This one is about {about}{found}"


def _decision_words(decision: Decision) -> str:
    """Return who asked for what, when, and what became of it."""
    names = names_in_request(decision.request)
    claim = requested_words(decision)
    who = names.analyst or names.by or "somebody"
    asked = f"{who} asked {claim}" if claim and names.analyst else f"a record of {who}"
    reason = f" ({decision.reason})" if decision.reason else ""
    return f"{asked} at {moment(decision.decided_at)}: {decision.outcome}{reason}"


class OneWayChoice(NamedTuple):
    """A question, the policy's answer, and how to get the other one.

    Attributes:
        question: to the owner, in words.
        allowed: whether the policy allows it.
        change: of what is not allowed, the options of `accountant dataset open` that allow it.
    """

    question: str
    allowed: bool
    change: str


def one_way_choices(plan: CompiledPolicy, *, not_added: str = "") -> tuple[OneWayChoice, ...]:
    """Return what cannot be changed after the opening under this policy.

    The rules that decide on limits answer the questions about them.

    Args:
        not_added: why the budget would not add up with those of its population, if it would not.
    """
    policy = plan.policy
    parts, shares = allows_parts(plan.kind), allows_reserved_shares(plan.kind)
    alone = open_plan(resolve(replace(policy, beside=UNSET)))
    beside = (
        "--beside none" if allows_reserved_shares(alone.kind) else f"{_OTHER_FILTER} --beside none"
    )
    parameters = FILTERS[policy.filter].parameters
    return (
        OneWayChoice("Reserve a share of the budget for a team or an analyst?", shares, beside),
        OneWayChoice("Give teams a part of the budget, or so much a week?", parts, _OTHER_FILTER),
        OneWayChoice(
            "Grant requests that have a delta of their own?",
            policy.delta_for_claims not in (None, "0"),
            "--delta-for-claims, a part of --delta",
        ),
        OneWayChoice(
            "Count sampling, for models trained on samples of the data?",
            "order" in parameters or "orders" in parameters,
            "--for CLAIM, which proposes a filter",
        ),
        OneWayChoice("Record a release made elsewhere?", plan.kind.adds_up, "--outside"),
        OneWayChoice(
            "Add this budget up with other datasets of the same people?",
            policy.population is not UNSET and not not_added,
            not_added or "--population NAME",
        ),
    )
