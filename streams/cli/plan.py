"""`accountant plan`: mechanisms that keep an analyst's error, and their cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
    read_policy,
)

if TYPE_CHECKING:
    from accountant.advice.fit import Fit, PlanBudget
    from accountant.advice.noise_for_error import NoiseChoice
    from accountant.claims import Claim
    from accountant.policy import Policy


_BUDGET = ("filter", "epsilon", "rho", "delta")
"""The options that describe a budget, if no file and no dataset does."""


@policy_options(*_BUDGET, after="proportion_of")
def plan(
    context: typer.Context,
    error: Annotated[str, typer.Option(help="Largest acceptable error, in query units.")],
    confidence: Annotated[
        str, typer.Option(help="Probability that the error is not exceeded.")
    ] = "0.95",
    sensitivity: Annotated[
        str | None, typer.Option(help="How much one privacy unit can change the result.")
    ] = None,
    proportion_of: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="PEOPLE",
            help="The result is a proportion of this many people, and so is the error.",
        ),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="JSON file of the whole policy, instead of the options."),
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="Use the remaining budget of this open dataset.")
    ] = None,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    json: Json = False,
    **fields: str | None,
) -> None:
    """Print mechanisms that keep an error, their claims and costs, and how many fit a budget.

    The budget comes from the options, from a policy file, or from the rest of an open dataset's.
    Without a budget, the command prints the claims alone. Without --filter the policy is the
    default of `dataset open`. Exit code 1 if no mechanism fits the budget.
    """
    from accountant.advice.noise_for_error import accuracy_target, choices

    with explain_errors():
        if dataset is not None:
            why = "the dataset has a budget"
            check_excluded(context, "--dataset", (*_BUDGET, "policy"), why=why)
        elif policy is not None:
            check_excluded(context, "--policy", _BUDGET, why="the file has the whole policy")
        with named_options(context):
            wish = accuracy_target(
                error=error, confidence=confidence, sensitivity=sensitivity, people=proportion_of
            )
            found = choices(wish)
        budget = _of_file(policy) if dataset is None else _of_dataset(dataset, url, token_file)
        typed = policy_of(fields if is_typed(context, "filter") else propose_defaults(fields))
        rows = [(choice, _fit(context, choice.claim, budget, typed)) for choice in found]
    if json:
        kind = typed.filter if budget is None else budget.plan.kind.name
        _print_json(rows, kind, error, confidence)
    else:
        _print_table(rows, error, confidence, proportion_of)
        if budget is not None and budget.closed:
            say("The dataset is closed: it grants nothing more.")
        elif budget is not None and budget.paused:
            say("The dataset is paused: it grants nothing until it is resumed.")
    tried = [fits for _, fits in rows if fits is not None]
    if tried and all(fits.count == 0 for fits in tried):
        raise typer.Exit(Exit.FAILED)


def _fit(
    context: typer.Context, claim: Claim, budget: PlanBudget | None, typed: Policy
) -> Fit | None:
    """Return how often a claim fits a budget, or that of the options; None without a budget."""
    from accountant.advice.fit import fit

    if budget is not None:
        return fit(claim, budget)
    if typed.epsilon is None and typed.rho is None:
        return None
    return _of_options(context, typed, claim)


def _of_options(context: typer.Context, policy: Policy, claim: Claim) -> Fit | None:
    """Return how often a claim fits a new budget; renyi's order is the best for the claim."""
    from accountant.advice.choose_filter import choose

    if policy.filter == "split":
        hint = 'a file such as {"filter": "split", "epsilon": "1", ..., "epsilon_ex_post": "1"}'
        fail(Exit.USAGE, "filter split has a second budget, so it needs --policy", hint=hint)
    with named_options(context):
        return choose(policy, claim).fit


def _of_file(path: Path | None) -> PlanBudget | None:
    from accountant.advice.fit import unspent
    from accountant.policy import resolve
    from accountant.policy.compiled_policy import open_plan

    return None if path is None else unspent(open_plan(resolve(read_policy(path))))


def _of_dataset(name: str, url: str, token_file: Path | None) -> PlanBudget:
    from accountant.advice.fit import budget_of
    from streams.cli.reading.dataset_reader import get_dataset, reader

    with reader(url, token_file) as ledger:
        return budget_of(get_dataset(ledger, name))


def _print_json(
    rows: list[tuple[NoiseChoice, Fit | None]], kind: str, error: str, confidence: str
) -> None:
    from accountant.claims.text import claim_text
    from streams.cli.printing.output import print_json

    found = []
    for choice, fits in rows:
        row: dict[str, Any] = {
            "mechanism": choice.mechanism,
            "claim": claim_text(choice.claim),
            "noise": choice.noise,
            "typical_error": choice.typical_error,
        }
        if fits is not None:
            row |= {"accepted": fits.accepted, "cost": {fits.unit: fits.cost}, "fits": fits.count}
        found.append(row)
    tried = kind if any(fits for _, fits in rows) else None
    print_json({"error": error, "confidence": confidence, "filter": tried, "choices": found})


def _print_table(
    rows: list[tuple[NoiseChoice, Fit | None]], error: str, confidence: str, people: int | None
) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from accountant.claims.text import claim_text
    from accountant.display.numbers import spent_amount, symbol
    from streams.cli.printing.output import stdout

    what = "the result" if people is None else f"a proportion of {people} people"
    title = f"within {error} of {what}, with probability {confidence}"
    table = Table(title=title, title_justify="left", header_style="bold", box=SIMPLE_HEAD)
    table.add_column("mechanism", style="bold", no_wrap=True)
    table.add_column("noise", overflow="fold")
    table.add_column("typical error", justify="right", overflow="fold")
    if any(fits for _, fits in rows):
        table.add_column("cost", justify="right", no_wrap=True)
        table.add_column("fit", justify="right", style="bold", no_wrap=True)
    for choice, fits in rows:
        cells = [choice.mechanism, choice.noise, f"{choice.typical_error:.4g}"]
        if fits is not None:
            cost = f"{symbol(fits.unit)} {spent_amount(fits.cost)}"
            cells += [cost if fits.accepted else "not accepted", _count(fits)]
        table.add_row(*cells)
    stdout().print(table)
    # Outside the table, whose cells would fold them: users copy these lines.
    stdout().print("The claims for `accountant ask`:")
    for choice, _ in rows:
        stdout().print(f"  {claim_text(choice.claim)}", soft_wrap=True)
    if people is not None:
        stdout().print(
            "The noise is added to the count of people. Under randomized response each person "
            "randomizes their own answer.",
            soft_wrap=True,
        )


def _count(fits: Fit) -> str:
    if not fits.accepted:
        return "–"
    return "unlimited" if fits.count is None else str(fits.count)
