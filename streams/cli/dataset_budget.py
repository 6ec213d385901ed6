"""`accountant dataset set-budget`: the budget in force of a dataset, below its ceiling."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.admin_command import AdminOptions, admin_command
from streams.cli.dataset_outside import Name
from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import ask_back, fail
from streams.cli.reading.dataset_reader import limits_and_members

if TYPE_CHECKING:
    from accountant.policy.in_force import BudgetInForce
    from accountant.views.datasets import DatasetView
    from streams.client import Accountant


@admin_command()
def set_budget(
    name: Name,
    epsilon: Annotated[
        str | None, typer.Option(help="The budget in force, in epsilon, at most the ceiling.")
    ] = None,
    rho: Annotated[
        str | None, typer.Option(help="Instead: the budget in force, in rho, of filter zcdp.")
    ] = None,
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Set it at once, also below what is spent: that stops grants."),
    ] = False,
    *,
    admin: AdminOptions,
) -> None:
    """Raise or lower the budget in force, below the ceiling that the opening has fixed.

    The guarantee stays the ceiling's. A raise lets more requests in. A budget below what is spent
    stops grants, so without --yes the command says so and sets nothing; one below what is spent and
    reserved for others is refused.

    Example: `accountant dataset set-budget survey --epsilon 2`. Exit code 1 if it is refused.
    """
    if (epsilon is None) == (rho is None):
        hint = "add --epsilon AMOUNT, or --rho AMOUNT if the dataset's budget is in rho"
        fail(Exit.USAGE, "say how much is in force", hint=hint)
    from accountant.display.budget_in_force import changed_words
    from accountant.policy.in_force import BudgetInForce
    from streams.cli.reading.dataset_reader import find_dataset

    with admin.ledger() as (ledger, request):
        view = find_dataset(ledger, name)
        if view is not None and not yes:
            ask_back_of_lowering(ledger, view, BudgetInForce(epsilon=epsilon, rho=rho))
        owner = admin.owner(ledger, request)
        decision = owner.set_budget(name, epsilon=epsilon, rho=rho)
        notes = partial(changed_words, view, decision)
        admin.end(ledger, request, decision, notes=notes)


def ask_back_of_lowering(ledger: Accountant, view: DatasetView, budget: BudgetInForce) -> None:
    """End the command if a budget in force would stop all grants."""
    from accountant.display.budget_in_force import lowering_words

    limits = limits_and_members(ledger, view.dataset)[0]
    if words := lowering_words(view, limits, budget):
        ask_back(words)
