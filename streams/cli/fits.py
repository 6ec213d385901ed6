"""`accountant fits`: how many such requests fit a budget, without any ledger."""

from __future__ import annotations

from typing import Annotated

import typer

from streams.cli.exits import Exit, explained, fail
from streams.cli.options import FilterOption, Json
from streams.cli.policies import named_options


def fits(
    claim: Annotated[
        str, typer.Option("--claim", help="As in pure:0.01 or gaussian:sigma=20,sensitivity=1.")
    ],
    filter_name: FilterOption = "zcdp_tight",
    epsilon: Annotated[str | None, typer.Option(help="Budget, in nats.")] = None,
    rho: Annotated[str | None, typer.Option(help="Budget of filter zcdp, in nats.")] = None,
    delta: Annotated[str, typer.Option(help="The whole delta of the budget.")] = "0",
    delta_for_claims: Annotated[
        str | None, typer.Option(help="The part of delta that claims may spend.")
    ] = None,
    json: Json = False,
) -> None:
    """Print how many such requests fit a new dataset's budget, one after another.

    Exit code 1 if not even one fits, or the filter cannot take the claim.
    """
    from accountant.amounts import INFINITE, format_units
    from accountant.claim_text import claim_text, parse_claim
    from accountant.claims import checked
    from accountant.plan import open_plan
    from accountant.policy import Policy, resolve
    from accountant.totals import price
    from streams.cli.output import print_json

    with explained():
        policy = Policy(
            filter=filter_name,
            epsilon=epsilon,
            rho=rho,
            delta=delta,
            delta_for_claims=delta_for_claims,
        )
        with named_options():
            plan = open_plan(resolve(policy))
        wanted = parse_claim(claim)
        cost = price(checked(wanted), plan.kind.needs)
        accepted = plan.kind.accepts(cost)
        spent = (0,) * plan.width
        count = plan.kind.count(plan.capacity, spent, cost) if accepted else 0
    if json:
        print_json(
            {
                "fits": count,
                "accepted": accepted,
                "filter": plan.kind.name,
                "claim": claim_text(wanted),
                "cost": dict(zip(plan.kind.needs, map(format_units, cost.amounts), strict=True)),
                "budget": plan.budget_wire,
            }
        )
    elif accepted:
        typer.echo("unlimited" if count is None else count)
    if not accepted:
        name = claim_text(wanted)
        if json:
            raise typer.Exit(Exit.FAILED)
        fail(
            Exit.FAILED,
            f"filter {plan.kind.name} cannot take {name}: it has no finite "
            + " and no finite ".join(
                s for s, a in zip(plan.kind.needs, cost.amounts, strict=True) if a == INFINITE
            ),
            hint="another --filter, such as zcdp_tight",
        )
    if count == 0:
        at = plan.kind.needs.index("delta") if "delta" in plan.kind.needs else None
        if at is not None and cost.amounts[at] and not plan.capacity[at]:
            typer.echo(
                f"the claim has delta {format_units(cost.amounts[at])}, and no part of the "
                "budget's delta is for claims: add --delta-for-claims, a part of --delta",
                err=True,
            )
        raise typer.Exit(Exit.FAILED)
