"""Datasets and decisions as people see them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import UNSET
from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from accountant.advice.preview import Preview, more_like
from accountant.claims import Claim
from accountant.claims.text import claim_text
from accountant.display.datasets import STATES, cap_words, filter_words, guarantee, more_words
from accountant.display.limits import left_at_words, limit_sentence
from accountant.display.members import member_sentence
from accountant.display.numbers import (
    Amount,
    counted,
    left_amounts,
    left_line,
    line,
    odometer_amounts,
    percents,
    spent_amounts,
)
from accountant.display.odometers import odometers_of
from accountant.display.refusals import refusal_words, when_more
from accountant.display.times import day, moment
from accountant.filters.beside import ENDED, WITHOUT
from accountant.records import Decision, FieldError
from accountant.records.outcomes import Outcome, Reason
from accountant.views.datasets import DatasetView
from streams.cli.printing.output import outcome_text, spent_bar
from streams.cli.reading.unanswered import UnansweredRelease

_DECIDED_BEFORE = {
    Outcome.EXPIRED: "was it decided in time? `accountant log export",
    Outcome.CONFLICT: "the id is another request's: `accountant log export",
}


def dataset_table(views: Sequence[DatasetView], *, title: str | None = None) -> Table:
    """Return the table of budgets: the guarantee, what is spent and left, the odometers."""
    table = Table(title=title, title_justify="left", header_style="bold", box=SIMPLE_HEAD)
    # On a narrow screen lines are folded: an amount cut short would look like another amount.
    table.add_column("dataset", style="bold", overflow="fold")
    table.add_column("guarantee, filter", overflow="fold")
    table.add_column("spent, left", no_wrap=True)
    table.add_column("odometers (nats)", overflow="fold")
    table.add_column("granted, refused", justify="right", overflow="fold")
    for view in views:
        left = left_amounts(counted(view.left, view.totals))[0]
        table.add_row(
            Text(view.dataset).append(f"\n{view.state}", style="not bold dim"),
            Text(guarantee(view.policy)).append(f"\n{view.policy.filter}", style="dim"),
            spent_bar(view.spent_ratio).append(f"\n{left}", style="dim"),
            odometers(odometers_of(view)),
            Text(_count(view, Outcome.GRANTED), style="green").append(
                f"\n{_count(view, Outcome.REFUSED)}", style="red"
            ),
        )
    return table


def _count(view: DatasetView, outcome: Outcome) -> str:
    """Return how many decisions were counted; a dash for none where earlier ones were not seen."""
    # Who has not seen the opening, such as one who read `state` alone, knows of no zero.
    count = view.outcomes.get(outcome, 0)
    return str(count) if count or Outcome.OPENED in view.outcomes else "–"


def about_end(name: str, *, granted: bool) -> str:
    """Return what it means that a request, or what is offered instead of it, ends a filter."""
    after = "from now on" if granted else "after what fits"
    return f"{name}: {after} basic composition alone admits"


def _filter_of(view: DatasetView) -> str:
    """Return the filter of a dataset, and which half has ended where basic stands beside it."""
    policy = view.policy
    said = filter_words(policy)
    if policy.beside is UNSET:
        return said
    if view.totals[ENDED] != "0":
        return f"{said}\n{policy.filter} has ended: basic composition alone admits"
    if view.totals[WITHOUT] != "0":
        return f"{said}\nbasic composition has ended: a claim without an epsilon was granted"
    return said


def odometers(readings: Sequence[Amount], separator: str = "\n") -> str:
    """Return the odometers' readings, one a line."""
    return separator.join(map(str, readings)) or "–"


def dataset_details(
    view: DatasetView, *, like: Claim | None = None, more: Sequence[tuple[str, str]] = ()
) -> RenderableType:
    """Return all there is to see of one dataset.

    Args:
        like: count how many more requests of this claim would be granted.
        more: lines on who may ask, and see.
    """
    policy = view.policy
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    rows: list[tuple[str, RenderableType]] = [
        ("guarantee", f"{guarantee(policy)}  (for everything ever released, per {policy.unit})"),
        ("filter", _filter_of(view)),
        ("neighbours", policy.neighbours),
        ("spent", spent_bar(view.spent_ratio, 24)),
        *_sums(view),
        ("odometers", odometers(odometers_of(view))),
        ("mechanisms", str(view.totals["mechanisms"])),
        ("one request", cap_words(policy)),
        ("alerts at", percents(policy.alert_at) or "none"),
        ("alerts crossed", percents(view.crossed) or "none"),
        ("opened", moment(view.opened_at)),
        ("last decision", f"{moment(view.last_decided_at)} (number {view.sequence})"),
        ("budget is to last until", day(view.horizon_ends_at) or "–"),
        ("state", f"{view.state}: {STATES[view.state]}"),
        *more,
    ]
    if like is not None:
        count = more_words(more_like(like, view))
        rows.append(("a request fits", f"{count}: {claim_text(like)}"))
    for label, value in rows:
        grid.add_row(label, value)
    return Group(Text(view.dataset, style="bold"), grid)


def _sums(view: DatasetView) -> Iterator[tuple[str, str]]:
    """Yield what is spent and left of each sum."""
    # A half of the budget that has ended is no longer counted.
    left = counted(view.left, view.totals)
    used = spent_amounts({name: str(view.totals[name]) for name in left})
    budget = left_amounts({name: view.budget[name] for name in left})
    for spent, whole, rest in zip(used, budget, left_amounts(left), strict=True):
        yield f"  {spent.name}", f"{spent.text} of {whole.text}"
        yield f"  {spent.name} left", rest.text


def request_of(decision: Decision) -> dict[str, Any]:
    """Return the request that a decision repeats, empty if it repeats none."""
    body = bytes(decision.request)
    value = json.loads(body) if body else {}
    return value if isinstance(value, dict) else {}


def id_of(decision: Decision) -> str:
    """Return the id of a decision's request, empty if it has none."""
    return str(request_of(decision).get("request_id", ""))


def verdict(decision: Decision) -> tuple[Outcome, Reason | None]:
    """Return what a request was told, the first time if this is a repeat."""
    if decision.outcome is Outcome.REPEATED and decision.first is not None:
        return decision.first.outcome, decision.first.reason
    return decision.outcome, decision.reason


def broken_rule(error: FieldError) -> str:
    """Return which rule an invalid input breaks, in a line."""
    if error.field == "body" and not error.value:
        return error.rule  # which names the body itself
    return f"{error.field} {error.rule}, got {error.value}"


def amount_lines(left: dict[str, str] | None, **amounts: dict[str, str] | None) -> Iterator[Text]:
    """Yield a line for each of some amounts, of the sums that have a limit, and what is left."""
    if not left:
        return
    for label, named in amounts.items():
        if named:
            shown = line(spent_amounts({name: named[name] for name in left}))
            yield Text(f"  {label:<6}{shown}")
    yield Text(f"  left  {left_line(left)}")


def refusal_lines(refused: Decision | Preview) -> list[Text]:
    """Return why a request is refused, and what is left at each level, line by line."""
    words = refusal_words(refused)
    said = [words] if words else []
    return [Text(f"  {each}") for each in (*said, *left_at_words(refused.left_at, refused.left))]


def explain(decision: Decision) -> list[Text]:
    """Return the decision for people, line by line; a refusal says what would fit."""
    head = outcome_text(decision.outcome)
    if decision.reason is not None:
        head.append(f" ({decision.reason})")
    # A member's record moves no amount.
    left = decision.left if decision.member is None and decision.limit is None else None
    if decision.member is not None:
        head.append(f": {member_sentence(decision.member)}", style="")
    if decision.limit is not None:
        set_to = limit_sentence(decision.limit)
        head.append(f": {set_to} (version {decision.limit.version})", style="")
    first = decision.first
    if first is not None:
        head.append(f": first decided {first.outcome} at {moment(first.decided_at)}", style="")
    lines = [head]
    if decision.error is not None:
        lines.append(Text(f"  {broken_rule(decision.error)}"))
    lines += refusal_lines(decision)
    lines += amount_lines(left, cost=decision.cost, asked=decision.asked)
    if decision.reason in {Reason.EXHAUSTED, Reason.ABOVE_CAP}:
        lines.append(Text(f"  fits  {decision.fits or 'nothing of this kind'}", style="bold"))
    if (more := when_more(decision)) is not None:
        lines.append(Text(f"  then  {more.text}"))
    if decision.odometers and decision.outcome is Outcome.GRANTED:
        lines.append(Text(f"  odometers {odometers(odometer_amounts(decision.odometers), ', ')}"))
    if decision.ends is not None:
        lines.append(
            Text(
                f"  ends  {about_end(decision.ends, granted=decision.outcome is Outcome.GRANTED)}",
                style="yellow",
            )
        )
    if decision.crossed:
        crossed = percents(decision.crossed)
        lines.append(Text(f"  crossed {crossed} of the budget", style="yellow"))
    if name := id_of(decision):
        lines.append(Text(f"  id    {name}"))
        if decision.outcome in _DECIDED_BEFORE:
            lines.append(Text(f"  next  {_DECIDED_BEFORE[decision.outcome]} --id {name}`"))
    return lines


def unanswered_table(releases: Iterable[UnansweredRelease]) -> Table:
    """Return the table of releases that have no answer."""
    table = Table(header_style="bold", box=SIMPLE_HEAD)
    for column in ("asked at", "dataset", "analyst", "claim", "charged", "request_id"):
        table.add_column(column, overflow="fold", no_wrap=column == "request_id")
    for each in releases:
        charged = "yes" if each.charged else "perhaps"
        table.add_row(
            *map(
                Text,
                (
                    moment(each.asked_at),
                    each.dataset,
                    each.analyst,
                    each.claim,
                    charged,
                    each.request_id,
                ),
            )
        )
    return table
