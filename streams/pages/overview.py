"""The list of datasets, a dataset a line, as many as one can look through."""

from __future__ import annotations

import asyncio
from heapq import nsmallest
from typing import Final, NamedTuple

from litestar import Response, get

from accountant.policy import guarantee_of
from accountant.views.datasets import DatasetView
from accountant.views.joint import JointGuarantee
from accountant.views.population import joint_guarantees
from streams.auth.visibility import sight_of
from streams.http.context import HttpRequest, context_of
from streams.pages.paths import HOME
from streams.pages.render import rendered
from streams.visibility import Sight

_MOST: Final = 500


class _Row(NamedTuple):
    """One dataset as the list shows it."""

    dataset: str
    guarantee: str
    delta: str
    unit: str
    ratio: float
    spent: str
    left: list[tuple[str, str]]
    odometers: list[tuple[str, str]]
    state: str


@get(HOME, include_in_schema=False)
async def overview(request: HttpRequest) -> Response[str]:
    """Return a page with the datasets, those nearest to exhaustion where there are too many."""
    service = context_of(request).service
    views = await service.datasets()
    ordered = service.ordered_before()
    # Beside the loop: to go through very many takes longer than a decision may wait.
    return await asyncio.to_thread(_page, request, sight_of(request), views, ordered)


def _page(
    request: HttpRequest, sight: Sight, known: list[DatasetView], ordered: int | None
) -> Response[str]:
    views = sight.among(known)
    more = len(views) - _MOST
    shown = views if more <= 0 else nsmallest(_MOST, views, _urgency)
    return rendered(
        request,
        "overview.html",
        rows=[_row(view) for view in shown],
        more=more,
        together=[_joint(each) for each in joint_guarantees(known, sight.sees, ordered=ordered)],
    )


def _joint(each: JointGuarantee) -> tuple[str, str, str]:
    """Return a population, its datasets, and what they promise together."""
    if each.why is not None:
        return each.population, each.names, f"no (epsilon, delta): {each.why}"
    return each.population, each.names, f"epsilon {each.epsilon}, delta {each.delta}"


def _urgency(view: DatasetView) -> tuple[bool, float, str]:
    """Return what sorts first where an owner may still act: what grants, and is spent most."""
    return state_of(view) != "open", -view.spent_ratio, view.dataset


def state_of(view: DatasetView) -> str:
    """Return in a word whether a dataset still grants."""
    if view.closed:
        return "closed"
    if view.halted:
        return "halted"
    return "exhausted" if view.exhausted else "open"


def _row(view: DatasetView) -> _Row:
    policy = view.policy
    name, amount, delta = guarantee_of(policy)
    return _Row(
        view.dataset,
        f"{name} {amount:f}",
        f"delta {delta:f}",
        policy.unit,
        view.spent_ratio,
        f"{view.spent_ratio:.2%}",
        # What nothing was allotted to has nothing to tell: delta under pure budgets.
        [
            (unit.replace("_", " "), amount)
            for unit, amount in view.left.items()
            if view.budget.get(unit) != "0"
        ],
        [*view.odometers.items()],
        state_of(view),
    )
