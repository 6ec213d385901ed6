"""`accountant fits`: how many requests of a claim fit a new budget, or the rest of a dataset's."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from msgspec.structs import replace

from accountant.filters import FILTERS
from accountant.policy import PARAMETERS, Policy
from accountant.policy.proposal import propose_defaults
from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import explain_errors, fail
from streams.cli.printing.say import say
from streams.cli.reading.options import DEFAULT_URL, Json, TokenFile, Url
from streams.cli.reading.policy_options import (
    check_excluded,
    is_typed,
    named_options,
    policy_of,
    policy_options,
)

if TYPE_CHECKING:
    from accountant.advice.choose_filter import FilterChoice
    from accountant.advice.fit import Fit
    from accountant.advice.preview import Preview
    from accountant.claims import Claim
    from accountant.views.datasets import DatasetView


_OF_A_BUDGET: Final = (
    *("filter", "epsilon", "rho", "delta", "delta_for_claims"),
    *(*PARAMETERS, "beside", "most_per_request", "neighbours"),
)
"""The options that describe a budget, if no dataset does."""
_OF_A_FILTER: Final = ("filter", "beside", "most_per_request")
"""The options whose values are proposed where none of them is typed."""


@policy_options(*_OF_A_BUDGET, after="claim", filter=f"{', '.join(FILTERS)}; or all, side by side.")
def fits(
    context: typer.Context,
    claim: Annotated[
        list[str],
        typer.Option(
            "--claim",
            help="Such as pure:0.01, gaussian:sigma=20,sensitivity=1 or 3*pure:0.01 (three times). "
            "Several claims make up one round, and the rounds are counted.",
        ),
    ],
    dataset: Annotated[
        str | None, typer.Option(help="Use the remaining budget of this open dataset.")
    ] = None,
    analyst: Annotated[
        str | None,
        typer.Option(
            help="With --dataset: apply the limits of this analyst. Default: the token's name."
        ),
    ] = None,
    reserve: Annotated[
        str | None,
        typer.Option(
            metavar="UNTIL",
            help="With --dataset: count reservations that may take so long, as in PT30M. "
            "gdp_residue charges more for them.",
        ),
    ] = None,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    json: Json = False,
    **budget: str | None,
) -> None:
    """Print how many requests of a claim fit a budget; nothing is sent or written.

    The budget is a new one, or the rest of an open dataset's. Without --filter, --beside and
    --most-per-request the policy is the default of `dataset open`. Exit code 1 if not even one
    request fits, or the filter does not accept the claim.
    """
    from accountant.advice.choose_filter import choose, choose_all, mix
    from accountant.claims import check_claim
    from accountant.claims.text import parse_claim
    from streams.cli.reading.dataset_reader import get_dataset, reader

    policy = policy_of(budget if is_typed(context, *_OF_A_FILTER) else propose_defaults(budget))
    with explain_errors():
        wanted = check_claim(mix([parse_claim(text) for text in claim])).claim
        if dataset is not None:
            why = "the dataset has a budget"
            check_excluded(context, "--dataset", _OF_A_BUDGET, why=why)
            with reader(url, token_file) as ledger:
                view = get_dataset(ledger, dataset)
                shown = ledger.cost(dataset, wanted, analyst=analyst, reserve=reserve)
            _print_of_dataset(view, wanted, shown, json=json)
            return
        if analyst is not None:
            fail(Exit.USAGE, "--analyst needs --dataset: a new dataset has no limits")
        if reserve is not None:
            fail(Exit.USAGE, "--reserve needs --dataset", hint="open the dataset, then count")
        with named_options(context):
            if policy.filter == "all":
                _check(policy)
                found = choose_all(policy, wanted)
            else:
                found = [choose(policy, wanted)]
    if policy.filter == "all":
        _print_all(found, wanted, json=json)
    else:
        _print_one(found[0], wanted, json=json)
    if not any(choice.fit and choice.fit.count != 0 for choice in found):
        raise typer.Exit(Exit.FAILED)


def _within_limits(found: Fit, shown: Preview) -> Fit:
    """Return how often a claim fits, no more often than the analyst's limits allow."""
    count = 0 if not shown.granted else None if shown.more is None else shown.more + 1
    counts = [each for each in (found.count, count) if each is not None]
    return dataclasses.replace(found, count=min(counts, default=None))


def _print_of_dataset(view: DatasetView, claim: Claim, shown: Preview, *, json: bool) -> None:
    """Print how often a claim fits a dataset's remaining budget, and what the decision would be."""
    from accountant.advice.choose_filter import FilterChoice
    from accountant.advice.fit import budget_of, fit
    from accountant.display.current_dataset import CurrentDataset
    from streams.cli.printing.dry_run import print_preview
    from streams.cli.printing.output import print_json

    budget, policy = budget_of(view), view.policy
    fits = _within_limits(fit(claim, budget), shown)
    found = FilterChoice(name=policy.filter, plan=budget.plan, fit=fits)
    if json:
        more: dict[str, Any] = {
            "dataset": shown.dataset,
            "sequence": shown.sequence,
            "reason": shown.reason,
            "left": shown.left,
            "largest": shown.fits,
        }
        if shown.level is not None:
            more["level"] = shown.level
        if shown.left_at:
            more["left_at"] = shown.left_at
        print_json(_row(found, claim) | more)
    else:
        _print_one(found, claim, json=False)
        print_preview(shown, CurrentDataset(view), claim=claim, as_json=False)
    if fits.count == 0:
        raise typer.Exit(Exit.FAILED)


def _check(policy: Policy) -> None:
    """End the command if an option is wrong under every filter."""
    from accountant.errors import RequestInvalid
    from accountant.policy import parse_budget

    if policy.epsilon is None and policy.rho is None:
        raise RequestInvalid("policy.epsilon", "must be given, or --rho", None)
    plain = Policy(delta=policy.delta, delta_for_claims=policy.delta_for_claims)
    if policy.epsilon is not None:
        parse_budget(replace(plain, filter="basic", epsilon=policy.epsilon))
    if policy.rho is not None:
        parse_budget(replace(plain, filter="zcdp", rho=policy.rho))


def _row(choice: FilterChoice, claim: Claim) -> dict[str, Any]:
    """Return a filter's answer as JSON."""
    from accountant.amounts import format_units
    from accountant.claims import check_claim
    from accountant.claims.price import price
    from accountant.claims.text import claim_text

    row: dict[str, Any] = {
        "fits": choice.fit.count if choice.fit else 0,
        "accepted": choice.fit.accepted if choice.fit else False,
        "filter": choice.name,
        "claim": claim_text(claim),
    }
    if choice.plan is None:
        return row | {"why_not": choice.why_not}
    kind = choice.plan.kind
    cost = price(check_claim(claim), kind.needs)
    row |= {
        "cost": dict(zip(kind.needs, map(format_units, cost.amounts), strict=True)),
        "budget": choice.plan.budget_wire,
    }
    if choice.fit is not None and choice.fit.ends is not None:
        row |= {"ends": choice.fit.ends, "ends_after": choice.fit.ends_after}
    fields = (*FILTERS[choice.name].parameters, "beside", "most_per_request")
    values = {field: getattr(choice.policy, field) for field in fields}
    return row | {field: value for field, value in values.items() if value}


def _print_one(choice: FilterChoice, claim: Claim, *, json: bool) -> None:
    from accountant.display.other_filter import parameters
    from streams.cli.printing.output import print_json

    assert choice.fit is not None
    if json:
        print_json(_row(choice, claim))
        return
    if not choice.fit.accepted:
        _fail_not_taken(choice, claim)
    count = "unlimited" if choice.fit.count is None else str(choice.fit.count)
    say(count + (f" at {parameters(choice)}" if choice.chosen else ""))
    if choice.fit.ends is not None:
        say(
            f"filter {choice.fit.ends} ends after {choice.fit.ends_after} of them; from then on "
            "only basic composition admits",
            err=True,
        )
    if choice.fit.count == 0:
        _explain_cap(choice, claim)


def _fail_not_taken(choice: FilterChoice, claim: Claim) -> None:
    from accountant.amounts import INFINITE
    from accountant.claims import check_claim
    from accountant.claims.price import is_too_much, price
    from accountant.claims.text import claim_text

    asked = check_claim(claim)
    if asked.only_for and asked.only_for != choice.policy.neighbours:
        fail(Exit.FAILED, f"{claim_text(claim)} can only be claimed for {asked.only_for}")
    assert choice.plan is not None
    kind = choice.plan.kind
    if is_too_much(asked, choice.plan.priced):
        what = "it has so many different mechanisms that pricing takes too long"
        hint = "split the batch"
        fail(Exit.FAILED, f"filter {kind.name} does not accept this batch: {what}", hint=hint)
    cost = price(asked, kind.needs)
    missing = [s for s, a in zip(kind.needs, cost.amounts, strict=True) if a == INFINITE]
    if not missing:
        fail(
            Exit.FAILED,
            f"{claim_text(claim)} never fits: its delta exceeds the budget's delta for claims",
            hint="raise --delta-for-claims, and --delta where that is needed",
        )
    fail(
        Exit.FAILED,
        f"filter {kind.name} does not accept {claim_text(claim)}: the claim has no "
        + " and no ".join(map(_sum, missing)),
        hint="choose another --filter, such as zcdp_tight",
    )


def _explain_cap(choice: FilterChoice, claim: Claim) -> None:
    """Print it if one request would take more than the policy's cap."""
    from accountant.claims import check_claim
    from accountant.claims.price import price

    assert choice.plan is not None
    cap = choice.plan.cap
    if cap is not None and not cap.admits(price(check_claim(claim), choice.plan.priced)):
        say(
            f"one request takes more than {choice.policy.most_per_request} of the budget, the cap "
            "of the policy: --most-per-request 1 removes the cap",
            err=True,
        )


def _sum(name: str) -> str:
    family, _, member = name.partition("_")
    return f"pure epsilon of at most {member}" if family == "within" else f"finite {name}"


def _print_all(found: list[FilterChoice], claim: Claim, *, json: bool) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from accountant.claims.text import claim_text
    from accountant.display.datasets import guarantee
    from accountant.display.other_filter import parameters
    from streams.cli.printing.output import print_json, stdout

    if json:
        for choice in found:
            print_json(_row(choice, claim))
        return
    best = _most(found)
    table = Table(title=claim_text(claim), title_justify="left", box=SIMPLE_HEAD)
    for name in ("filter", "fits", "guarantee", "note"):
        table.add_column(name, justify="right" if name == "fits" else "left")
    for choice in found:
        if choice.fit is None:
            table.add_row(choice.name, "-", "", Text(choice.why_not, style="dim"))
            continue
        note = "does not accept this claim" if not choice.fit.accepted else ""
        note = note or parameters(choice)
        count = "unlimited" if choice.fit.count is None else str(choice.fit.count)
        style = "bold green" if choice.name in best else ""
        table.add_row(Text(choice.name, style=style), count, guarantee(choice.policy), note)
    stdout().print(table)


def _most(found: list[FilterChoice]) -> set[str]:
    """Return the filters that admit most, of those that guarantee exactly the wanted budget."""
    from math import inf

    from accountant.advice.propose_filter import admits_under_the_budget

    counts = {
        choice.name: inf if choice.fit.count is None else choice.fit.count
        for choice in found
        if admits_under_the_budget(choice) and choice.fit is not None
    }
    most = max(counts.values(), default=0)
    return {name for name, count in counts.items() if count == most}
