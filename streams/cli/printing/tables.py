"""Tables and lines of datasets and decisions, for people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import UNSET
from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from accountant.advice.preview import Preview, more_like
from accountant.claims import Claim
from accountant.claims.text import claim_text
from accountant.display.approvals import approval_words, waiting_words
from accountant.display.current_dataset import CurrentDataset
from accountant.display.datasets import (
    STATES,
    cap_words,
    filter_words,
    in_force_words,
    lifetime_words,
    more_words,
    open_words,
    present_guarantee,
)
from accountant.display.endings import ending_words
from accountant.display.limits import Whole, left_at_words, limit_sentence
from accountant.display.members import member_sentence
from accountant.display.numbers import (
    Amount,
    Texts,
    counting_amounts,
    counting_cost,
    line,
    part_of,
    percents,
    remaining_amounts,
    remaining_line,
    remaining_percent,
    remaining_ratio,
    spent_amounts,
    unspent_percent,
)
from accountant.display.odometers import odometers_of
from accountant.display.pauses import person_pause_words, person_sentence
from accountant.display.reasons import OWNER
from accountant.display.refusals import refusal_words, when_more
from accountant.display.requested import fitting_words, requested_words
from accountant.display.reservations import step_words
from accountant.display.spending import reserved_words, spending_of, sums_of
from accountant.display.times import day, moment
from accountant.filters.beside import ENDED, WITHOUT
from accountant.foreign_text import escape_text
from accountant.records import Decision
from accountant.records.outcomes import Outcome, Reason
from accountant.records.request_names import names_in_request
from accountant.views.datasets import UNKNOWN, DatasetView
from accountant.views.ledgers import held_ratio_of
from accountant.views.limit_views import ScopeView
from streams.cli.printing.output import outcome_text, spent_bar
from streams.cli.reading.open_releases import OpenRelease

# A server has no log: whoever asks it can always ask again.
_OF_THE_ID = {
    Outcome.EXPIRED: "request {id} is too old, and is never granted from now on",
    Outcome.CONFLICT: "id {id} belongs to another request, which was decided before",
}
_ASK_AGAIN = (
    "To ask, run the same command without --id, or with a new one: a grant is then charged, also "
    "if the earlier one was. Where the log is, `accountant log export --id {id}` shows that one"
)
_REFUSED = "refused: a server also counts owners' records; `accountant usage` counts requests alone"


def dataset_table(views: Sequence[DatasetView], *, title: str | None = None) -> Table:
    """Return the table of budgets: the guarantee, what is spent and left, the odometers."""
    table = Table(title=title, title_justify="left", header_style="bold", box=SIMPLE_HEAD)
    # Fold long lines on a narrow screen: a truncated amount would look like another amount.
    table.add_column("dataset", style="bold", overflow="fold")
    table.add_column("guarantee, filter", overflow="fold")
    table.add_column("spent, left", no_wrap=True)
    table.add_column("odometers (nats)", overflow="fold")
    table.add_column("granted, refused", justify="right", overflow="fold")
    for view in views:
        left = _deciding_sum(view)
        table.add_row(
            Text(view.dataset).append(f"\n{view.state}", style="not bold dim"),
            Text(present_guarantee(view)).append(f"\n{view.policy.filter}", style="dim"),
            spent_bar(view.spent_ratio, reserved=held_ratio_of(view)).append(
                f"\n{left}", style="dim"
            ),
            odometers(odometers_of(view)),
            Text(_count(view, *(each for each in Outcome if each.charges)), style="green").append(
                f"\n{_count(view, Outcome.REFUSED)}", style="red"
            ),
        )
    if any(view.outcomes.get(Outcome.REFUSED) for view in views):
        table.caption, table.caption_justify = _REFUSED, "left"
    return table


def _spent(view: DatasetView, width: int = 12) -> Text:
    return spent_bar(view.spent_ratio, width, reserved=held_ratio_of(view))


def _deciding_sum(view: DatasetView) -> Amount:
    """Return what is left of the sum that decides how much of the budget is spent."""
    left = counting_amounts(view.left, view.totals, view.budget)
    unspent = unspent_percent(view.spent_ratio)
    ratios = {name: unspent_percent(1 - part_of(left[name], view.budget[name])) for name in left}
    name = next((name for name, ratio in ratios.items() if ratio == unspent), next(iter(left)))
    return remaining_amounts({name: left[name]})[0]


def _count(view: DatasetView, *outcomes: Outcome) -> str:
    """Return the number of decisions with one of some outcomes, a dash if it is not known."""
    # A view built from `state` alone has no counts: print a dash instead of 0.
    count = sum(view.outcomes.get(each, 0) for each in outcomes)
    return str(count) if count or Outcome.OPENED in view.outcomes else "–"


def _filter_of(view: DatasetView) -> str:
    """Return the filter of a dataset, and which half has ended if basic composition is beside."""
    policy = view.policy
    said = filter_words(policy)
    if policy.beside is UNSET:
        return said
    if view.totals[ENDED] != "0":
        return f"{said}\n{policy.filter} has ended: only basic composition admits requests"
    if view.totals[WITHOUT] != "0":
        return f"{said}\nbasic composition has ended: a claim without an epsilon was granted"
    return said


def odometers(readings: Iterable[Amount]) -> str:
    """Return the odometers' readings, one a line."""
    return "\n".join(map(str, readings)) or "–"


def dataset_details(
    view: DatasetView,
    *,
    like: Claim | None = None,
    more: Sequence[tuple[str, str]] = (),
    has_limits: bool = False,
) -> RenderableType:
    """Return all details of one dataset.

    Args:
        like: count how many more requests of this claim would be granted.
        more: lines on access and visibility.
        has_limits: limits may leave less.
    """
    policy, is_dated = view.policy, view.partition_sequence != UNKNOWN
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    rows: list[tuple[str, RenderableType]] = [
        *([("label", Text(escape_text(view.label)))] if view.label else []),
        (
            "guarantee",
            f"{present_guarantee(view)}  (for everything ever released, per {policy.unit})",
        ),
        *([("lifetime", lifetime_words(view))] if view.lifetime else []),
        *([("in force", words)] if (words := in_force_words(view.policy, view.in_force)) else []),
        ("filter", _filter_of(view)),
        ("neighbours", policy.neighbours),
        ("spent", _spent(view, 24)),
        *([("reserved", reserved_words(view))] if view.open_reservations else []),
        ("left", f"{spending_of(view).left} of the budget"),
        *((f"  {each.budget.name}", each.sentence) for each in sums_of(view)),
        ("odometers", odometers(odometers_of(view))),
        ("mechanisms", str(view.totals["mechanisms"])),
        ("one request", cap_words(policy)),
        *([("a request", approval_words(policy))] if policy.approve_above else ()),
        ("one holder", open_words(policy)),
        ("alerts at", percents(policy.alert_at) or "none"),
        ("alerts reached", percents(view.crossed) or "none"),
        ("opened", moment(view.opened_at)),
        ("last decision", f"{moment(view.last_decided_at)} (number {view.sequence})"),
        *([("as of", f"decision {view.partition_sequence} of the log")] if is_dated else []),
        ("should last until", day(view.horizon_ends_at) or "–"),
        ("state", f"{view.state}: {STATES[view.state]}"),
        *(("paused", person_pause_words(each)) for each in view.person_pauses),
        *more,
    ]
    if like is not None:
        count = more_words(more_like(like, view))
        count += " by the dataset's budget, limits aside" if has_limits else ""
        # No count where nothing is granted now: it would be read as what may be asked.
        halts = view.state in {"paused", "suspended"}
        of = claim_text(like)
        fits = f"no {of} while the dataset is {view.state}" if halts else f"{count}: {of}"
        rows.append(("fits", fits))
    for label, value in rows:
        grid.add_row(label, value)
    return Group(Text(view.dataset, style="bold"), grid)


def request_of(decision: Decision) -> dict[str, Any]:
    """Return the request that a decision repeats, empty if it repeats none."""
    body = bytes(decision.request)
    value = json.loads(body) if body else {}
    return value if isinstance(value, dict) else {}


def id_of(decision: Decision) -> str:
    """Return the id of a decision's request, empty if it has none."""
    return str(request_of(decision).get("request_id", ""))


def number_words(decision: Decision) -> str:
    """Return the number of a request's decision in its dataset, which a remark needs; else ""."""
    numbered = decision.outcome.is_numbered and decision.dataset is not None
    is_request = numbered and request_of(decision).get("type", "request") == "request"
    return f" (decision {decision.sequence} of {decision.dataset})" if is_request else ""


def verdict(decision: Decision) -> tuple[Outcome, Reason | None]:
    """Return the outcome and reason of a decision, of the first one if this is a repeat."""
    if decision.outcome.is_repeat and decision.first is not None:
        return decision.first.outcome, decision.first.reason
    return decision.outcome, decision.reason


def amount_lines(
    left: dict[str, str] | None,
    totals: Mapping[str, str | int] | None = None,
    budget: Texts | None = None,
    *,
    beside_limits: bool = False,
    **amounts: dict[str, str] | None,
) -> Iterator[Text]:
    """Yield a line for each named amount, then a line of what is left, in the sums that count.

    Args:
        totals: of the decision. `budget`: of the dataset, if it is known.
        beside_limits: what limits have left is printed, too.
    """
    if not left:
        return
    for label, named in amounts.items():
        if named:
            cost = counting_cost(named, left, totals, budget)
            yield Text(f"  {label:<6}{line(spent_amounts(cost))}")
    of_what = " of the dataset" if beside_limits else ""
    yield Text(f"  left  {remaining_line(counting_amounts(left, totals, budget))}{of_what}")


def refusal_lines(
    refused: Decision | Preview,
    levels: Sequence[ScopeView] = (),
    why: str = "",
    *,
    current: CurrentDataset | None = None,
    claim: Claim | None = None,
) -> list[Text]:
    """Return why a request is refused, and what is left at each limit, line by line.

    Args:
        levels: the limits of its analyst, if they are known.
        why: the reason, if it is known.
        current: the dataset, if it is known. `claim`: of a preview.
    """
    words = why or refusal_words(refused, levels=levels, current=current, claim=claim)
    said = [words] if words else []
    left = left_at_words(refused.left_at, refused.left, refused.asked)
    return [Text(f"  {each}") for each in (*said, *left)]


def explain(
    decision: Decision, *, why: str = "", waiting: str = "", whole: Whole = "budget"
) -> list[Text]:
    """Return the decision for people, line by line; a refusal says what would fit.

    Args:
        why: of a refusal, the reason, if it is known.
        waiting: whether waiting helps, if that is known.
        whole: what the dataset's limits are parts of.
    """
    # Records of members and limits charge nothing.
    left = decision.left if decision.member is None and decision.limit is None else None
    lines = [_outcome_line(decision, whole)]
    lines += refusal_lines(decision, why=why)
    lines += amount_lines(
        left,
        decision.totals,
        beside_limits=bool(decision.left_at),
        cost=decision.cost,
        asked=decision.asked,
    )
    if decision.reason in {Reason.EXHAUSTED, Reason.ABOVE_CAP}:
        if decision.fits is not None and (claim := requested_words(decision)):
            lines.append(Text(f"  claim {claim}"))
        lines.append(Text(f"  fits  {fitting_words(decision)}", style="bold"))
    more = when_more(decision)
    then = waiting_words(decision, OWNER) if more is None else more.text
    if then:
        lines.append(Text(f"  then  {waiting or then}"))
    analyst = names_in_request(decision.request).analyst
    if more is not None and (command := more.command(decision.dataset, analyst)):
        lines.append(Text(f"  ask   {command}"))
    if ends := ending_words(decision):
        lines.append(Text(f"  ends  {ends}", style="yellow"))
    if decision.crossed:
        lines.append(Text(f"  alert {percents(decision.crossed)} of the budget", style="yellow"))
    if name := id_of(decision):
        lines.append(Text(f"  id    {name}{number_words(decision)}"))
        if decision.outcome in _OF_THE_ID:
            said = f"{_OF_THE_ID[decision.outcome]}. {_ASK_AGAIN}"
            lines.append(Text(f"  next  {said.format(id=name)}"))
    return lines


def _outcome_line(decision: Decision, whole: Whole) -> Text:
    line = outcome_text(decision.outcome)
    remaining = remaining_ratio(decision.left, decision.totals) if decision.granted else None
    if remaining is not None:
        line.append(f": {remaining_percent(remaining)} of the budget left", style="bold")
    if decision.reason is not None:
        line.append(f" ({decision.reason})")
    if decision.member is not None:
        line.append(f": {member_sentence(decision.member)}", style="")
    if decision.pause is not None and decision.outcome.pauses_person:
        ended = not decision.outcome.pauses
        line.append(f": {person_sentence(decision.pause, ended=ended)}", style="")
    if words := step_words(decision):
        line.append(f": {words}", style="")
    if decision.limit is not None:
        set_to = limit_sentence(decision.limit, whole)
        line.append(f": {set_to} (version {decision.limit.version})", style="")
    first = decision.first
    if first is not None:
        why = "" if first.reason is None else f" ({first.reason})"
        line.append(f": first decided {first.outcome}{why} at {moment(first.decided_at)}", style="")
    return line


def open_release_table(releases: Iterable[OpenRelease]) -> Table:
    """Return the table of releases that have no result."""
    table = Table(header_style="bold", box=SIMPLE_HEAD)
    for column in ("asked at", "dataset", "analyst", "claim", "charged", "request_id"):
        table.add_column(column, overflow="fold", no_wrap=column == "request_id")
    for each in releases:
        charged = "yes" if each.charged else "unknown"
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
