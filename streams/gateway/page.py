"""A page for people: a dataset a line, as many as one can look through."""

from __future__ import annotations

import asyncio
from heapq import nsmallest
from html import escape
from typing import Final

from litestar import Response, get

from accountant.policy import guarantee_of
from accountant.views.datasets import DatasetView
from accountant.views.population import JointGuarantee, joint_guarantees
from streams.errors import Unavailable
from streams.gateway.access.sight import Sight, sight_of
from streams.gateway.context import HttpRequest, context_of

_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "Cache-Control": "no-store",
}
_TOP: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="5">
<title>Privacy accountant</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem; max-width: 70rem; }
table { border-collapse: collapse; }
th, td { padding: .3rem 1rem .3rem 0; text-align: left; vertical-align: top; }
thead th { border-bottom: 1px solid; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
</style></head><body><h1>Datasets</h1>
"""
_MOST: Final = 500  # datasets: every open page asks anew for all it shows, every five seconds
_MOST_NAMED: Final = 20
_TOGETHER: Final = ("population", "datasets", "guarantee of all together")
_HEAD: Final = ("dataset", "guarantee", "spent", "left", "odometers (epsilon)", "state")


@get("/", include_in_schema=False)
async def page(request: HttpRequest) -> Response[str]:
    """Return a page with the datasets, those nearest to exhaustion where there are too many."""
    try:
        views = await context_of(request).service.datasets()
        # Beside the loop: to go through very many takes longer than a decision may wait.
        content = await asyncio.to_thread(_content, sight_of(request), views)
    except Unavailable as error:
        content = f"<p>Not ready: {escape(str(error))}</p>"
    end = (
        '<p><a href="/schema/openapi.json">API</a> <a href="/metrics">metrics</a></p></body></html>'
    )
    return Response(_TOP + content + end, media_type="text/html", headers=_HEADERS)


def _content(sight: Sight, known: list[DatasetView]) -> str:
    views = sight.among(known)
    if not views:
        return "<p>None is open yet: <code>POST /datasets</code>.</p>"
    together = _together(joint_guarantees(views), is_whole=sight.is_whole)
    more = len(views) - _MOST
    if more <= 0:
        return _table(views) + together
    told = (
        f"<p>The {_MOST} nearest to exhaustion, what no longer grants last, and {more:,} more: "
        "<code>GET /datasets</code> lists all.</p>"
    )
    return told + _table(nsmallest(_MOST, views, _urgency)) + together


def _together(found: list[JointGuarantee], *, is_whole: bool) -> str:
    """Return what the datasets of each population promise together, of those that are seen."""
    if not found:
        return ""
    # The others stay out of it: what they would add tells that they are there.
    which = "" if is_whole else "<p>Of the datasets that you see; there may be others.</p>"
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in _joint(each)) + "</tr>"
        for each in found
    )
    head = "".join(f"<th scope=col>{name}</th>" for name in _TOGETHER)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f"<h2>The same people in several datasets</h2>{which}{table}"


def _joint(each: JointGuarantee) -> tuple[str, str, str]:
    names = ", ".join(each.datasets[:_MOST_NAMED])
    more = len(each.datasets) - _MOST_NAMED
    names += f" and {more:,} more" if more > 0 else ""
    if each.why is not None:
        return each.population, names, f"no (epsilon, delta): {each.why}"
    return each.population, names, f"epsilon {each.epsilon}, delta {each.delta}"


def _urgency(view: DatasetView) -> tuple[bool, float, str]:
    """Return what sorts first where an owner may still act: what grants, and is spent most."""
    return _state(view) != "open", -view.spent_ratio, view.dataset


def _table(views: list[DatasetView]) -> str:
    head = "".join(f"<th scope=col>{name}</th>" for name in _HEAD)
    rows = "".join(_row(view) for view in views)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _state(view: DatasetView) -> str:
    if view.closed:
        return "closed"
    if view.halted:
        return "halted"
    return "exhausted" if view.exhausted else "open"


def _row(view: DatasetView) -> str:
    policy = view.policy
    name, amount, delta = guarantee_of(policy)
    cells = (
        view.dataset,
        f"{name} {amount:f}, delta {delta:f}, {policy.unit}",
        f"{view.spent_ratio:.2%}",
        ", ".join(f"{unit} {amount[:12]}" for unit, amount in view.left.items()),
        ", ".join(f"{name} {reading[:8]}" for name, reading in view.odometers.items()),
        _state(view),
    )
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
