"""Reads whether an analyst may ask datasets, for commands that show the analyst's budgets."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from accountant.display.current_dataset import by_option, owner_words
from accountant.display.times import moment
from streams.cli.reading.dataset_reader import visible_members

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accountant.views.datasets import DatasetView
    from accountant.views.limit_views import AnalystBudget
    from streams.client import Accountant


class AnalystAccess(NamedTuple):
    """What an analyst may ask, beside the amounts of the budgets.

    Attributes:
        caller: the analyst, None if the analyst is the signed-in caller.
        obstacles: why the analyst may ask nothing, by dataset.
        closed: the closed datasets that the analyst might ask if they were open.
    """

    caller: str | None
    obstacles: dict[str, str]
    closed: list[str]


def read_access(
    ledger: Accountant, analyst: str | None, budgets: Sequence[AnalystBudget], now: int
) -> AnalystAccess:
    """Return whether an analyst may ask the datasets of some budgets.

    Args:
        analyst: None for the signed-in caller.
        budgets: the analyst's; without any, closed datasets are read instead.
        now: milliseconds since 1970.
    """
    own = ledger.me().name if ledger.token_source else None
    name = own if analyst is None else analyst
    if name is None or (budgets and name == own):  # the server leaves out what the caller may not
        return AnalystAccess(None, {}, [])
    shown = {budget.dataset for budget in budgets}
    obstacles, closed = dict[str, str](), []
    for view in ledger.datasets():
        if view.dataset in shown:
            obstacle = _obstacle(ledger, view, name, now)
            if obstacle is not None:
                obstacles[view.dataset] = obstacle
        elif not budgets and view.closed and _obstacle(ledger, view, name, now) is None:
            closed.append(view.dataset)
    return AnalystAccess(None if name == own else name, obstacles, closed)


def _obstacle(ledger: Accountant, view: DatasetView, name: str, now: int) -> str | None:
    """Return why somebody may not ask a dataset, None if they may."""
    if view.policy.access != "members":
        return None
    members = visible_members(ledger, view.dataset)
    by = "" if ledger.token_source else by_option(members)
    ask = (
        f"ask {owner_words(members)} to run `accountant member set {view.dataset} {name} --role "
        f"analyst{by}`"
    )
    member = next((each for each in members if each.member == name), None)
    if member is None or not member.roles:
        return f"{name} has no role on {view.dataset} and may ask nothing: {ask}"
    if not member.is_in_force(now):
        ended = f"the membership of {name} in {view.dataset} ended at {moment(member.until)}"
        return f"{ended}, and {name} may ask nothing: {ask}"
    if "analyst" not in member.roles:
        roles = " and ".join(member.roles)
        return f"{name} is {roles} of {view.dataset}, not analyst, and may ask nothing: {ask}"
    return None
