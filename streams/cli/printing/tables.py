"""Datasets and decisions as people see them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

from msgspec import UNSET
from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from accountant.advice.preview import more_like
from accountant.advice.refused import delta_words, when_more
from accountant.claims import Claim
from accountant.claims.text import claim_text
from accountant.filters.beside import ENDED, WITHOUT
from accountant.policy import Policy, guarantee_of
from accountant.records import Decision, FieldError
from accountant.records.members import Member
from accountant.records.outcomes import Outcome, Reason
from accountant.views.datasets import DatasetView
from streams.cli.printing.limits import level_words, limit_words
from streams.cli.printing.output import outcome_text, short, spent_bar

_MEANS = {
    Reason.UNKNOWN_DATASET: "no such dataset: `accountant dataset list` shows those there are",
    Reason.ALREADY_OPENED: "opened before: a budget is never reset, choose another name",
    Reason.CLOSED: "the dataset is closed: nothing more is granted",
    Reason.HALTED: "a request did not fit, and the policy lets that be the end",
    Reason.UNIT_MISMATCH: "the claim is for another unit or neighbours than the policy's, which "
    "`accountant dataset show` tells: derive it for these, never just rename it",
    Reason.CLAIM_NOT_ACCEPTED: "the filter or the neighbours of the dataset rule out this kind of "
    "claim, its delta is above all that claims may spend there, or its batch is too long: ask for "
    "another mechanism, one without a delta, or for less at a time",
    Reason.ABOVE_CAP: "one request may not take so much of the budget: ask for less, or have its "
    "owner amend `most_per_request`",
    Reason.OUT_OF_DATE: "another decision has come since the one that this follows",
    Reason.ALREADY_GRANTED: "something was granted: a whole policy replaces "
    "another before the first grant only. Open another dataset",
    Reason.NOT_LOWER: "the policy is somewhere larger, or of another filter, unit or neighbours",
    Reason.NOT_PERMITTED: "who asks, or the engine between, lacks the role in this dataset: "
    "an owner gives it by `accountant member set`",
    Reason.UNKNOWN_MEMBER: "nobody of that name is a member: `accountant member list` shows them",
    Reason.LAST_OWNER: "the dataset would have no owner: make somebody else one before, by "
    "`accountant member set --role owner`",
    Reason.TOO_MANY_MEMBERS: "a dataset has at most 10,000 members: remove some before, those "
    "whose time is over count too",
    Reason.UNKNOWN_LIMIT: "there is no such limit to lift: `accountant limit list` shows those "
    "there are",
    Reason.LIMIT_NOT_POSSIBLE: "the dataset cannot be divided so: --reserved needs one that was "
    "opened with `--beside none` under a filter whose sums add up; under gdp_residue a limit has "
    "a budget of its own (`--epsilon`) and no pace; or the part leaves nothing of some sum",
    Reason.OVER_RESERVED: "more would be reserved than is left, or than the team's share holds: "
    "reserve less, or lower another share first",
    Reason.TOO_MANY_LIMITS: "a dataset has at most 1,000 limits: lift some before",
    Reason.HAS_LIMITS: "the dataset has limits, parts of its budget: lift them before lowering it",
    Reason.OVERLOADED: "too many requests: retry the same request in a minute",
    Reason.ISSUED_IN_FUTURE: "the id's time is ahead of the ledger's clock: set this machine's",
}
_DECIDED_BEFORE = {
    Outcome.EXPIRED: "was it decided in time? `accountant log export",
    Outcome.CONFLICT: "the id is another request's: `accountant log export",
}


def meaning(
    reason: Reason | None, asked: dict[str, str] | None, left: dict[str, str] | None
) -> str | None:
    """Return what a reason means and what to do, None where its name says it.

    Args:
        asked, left: of a request, as its decision tells them.
    """
    if words := delta_words(asked, left):
        return words
    return None if reason is None else _MEANS.get(reason)


def guarantee(view: DatasetView) -> str:
    """Return a dataset's guarantee: its policy's constants."""
    policy = view.policy
    name, amount, delta = guarantee_of(policy)
    symbol, text = ("ρ", policy.rho) if name == "rho" else ("ε", policy.epsilon)
    return f"{symbol} = {_as_written(text or '0', amount)}, δ = {_as_written(policy.delta, delta)}"


def _as_written(text: str, value: Decimal) -> str:
    """Return the owner's own text where it says the same: 1e-6, not 0.000001."""
    return text if Decimal(text) == value else f"{value:f}"


def state_of(view: DatasetView, otherwise: str) -> str:
    """Return the word for what no longer goes on in a dataset, else another one."""
    if view.closed:
        return "closed"
    if view.halted:
        return "halted"
    return "exhausted" if view.exhausted else otherwise


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
        name, left = next(iter(view.left.items()))
        state = state_of(view, "")
        table.add_row(
            Text(view.dataset).append(f"\n{state}", style="not bold dim"),
            Text(guarantee(view)).append(f"\n{view.policy.filter}", style="dim"),
            spent_bar(view.spent_ratio).append(f"\n{name} {short(left, 4)}", style="dim"),
            odometers(view.odometers),
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


def most_per_request(policy: Policy) -> str:
    """Return how much of the budget one request may take."""
    ratio = policy.most_per_request
    if ratio is UNSET or Decimal(ratio) == 1:
        return "may take all that is left"
    return f"may take {ratio} of the budget"


def about_end(name: str, *, granted: bool) -> str:
    """Return what it means that a request, or what is offered instead of it, ends a filter."""
    after = "from now on" if granted else "after what fits"
    return f"{name}: {after} basic composition alone admits"


def filter_words(policy: Policy) -> str:
    """Return a policy's filter, what stands beside it, and what claims may spend of delta."""
    beside = "" if policy.beside is UNSET else f", {policy.beside} composition beside it"
    return f"{policy.filter}{beside}, δ for claims {policy.delta_for_claims}"


def _filter_of(view: DatasetView) -> str:
    """Return the filter of a dataset, and which half has ended where basic stands beside it."""
    policy, said = view.policy, filter_words(view.policy)
    if policy.beside is UNSET:
        return said
    if view.totals[ENDED] != "0":
        return f"{said}\n{policy.filter} has ended: basic composition alone admits"
    if view.totals[WITHOUT] != "0":
        return f"{said}\nbasic composition has ended: a claim without an epsilon was granted"
    return said


def about_more(count: int | None) -> str:
    """Return how many more requests like one would be granted, as people say it."""
    if count is None:
        return "any number more like this"
    return f"about {count:,} more like this" if count else "no more like this"


def odometers(readings: dict[str, str], separator: str = "\n") -> str:
    """Return the odometers' readings, one a line."""
    return separator.join(f"{name} {short(value, 4)}" for name, value in readings.items()) or "–"


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
        ("guarantee", f"{guarantee(view)}  (for everything ever released, per {policy.unit})"),
        ("filter", _filter_of(view)),
        ("neighbours", policy.neighbours),
        ("spent", spent_bar(view.spent_ratio, 24)),
        *((f"  {name}", f"{view.totals[name]} of {view.budget[name]}") for name in view.budget),
        *((f"  {name} left", amount) for name, amount in view.left.items()),
        ("odometers", odometers(view.odometers)),
        ("mechanisms", str(view.totals["mechanisms"])),
        ("one request", most_per_request(policy)),
        ("alerts at", ", ".join(policy.alert_at) or "none"),
        ("alerts crossed", ", ".join(view.crossed) or "none"),
        ("opened", view.opened_at),
        ("last decision", f"{view.last_decided_at} (number {view.sequence})"),
        ("budget is to last until", view.horizon_ends_at or "–"),
        ("state", state_of(view, "open")),
        *more,
    ]
    if like is not None:
        count = about_more(more_like(like, view))
        rows.append(("a request fits", f"{count}: {claim_text(like)}"))
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
    if left is None:
        return
    for label, named in (*amounts.items(), ("left", left)):
        if named:
            shown = ", ".join(f"{name} {short(named[name])}" for name in left)
            yield Text(f"  {label:<6}{shown}")


def member_words(member: Member | None) -> str:
    """Return what a decision says of a member, "" where it says nothing."""
    if member is None:
        return ""
    team = f", team {member.team}" if member.team else ""
    until = f", until {member.until}" if member.until else ""
    roles = f" is {', '.join(member.roles)}" if member.roles else " has no role any more"
    return f": {member.member}{roles}{team}{until}"


def explain(decision: Decision) -> list[Text]:
    """Return the decision for people, line by line; a refusal says what would fit."""
    head = outcome_text(decision.outcome)
    if decision.reason is not None:
        head.append(f" ({decision.reason})")
    # A member's record moves no amount.
    left = decision.left if decision.member is None and decision.limit is None else None
    head.append(member_words(decision.member), style="")
    head.append(limit_words(decision.limit), style="")
    first = decision.first
    if first is not None:
        head.append(f": first decided {first.outcome} at {first.decided_at}", style="")
    lines = [head]
    if decision.error is not None:
        lines.append(Text(f"  {broken_rule(decision.error)}"))
    if means := meaning(decision.reason, decision.asked, decision.left):
        lines.append(Text(f"  {means}"))
    lines += amount_lines(left, cost=decision.cost, asked=decision.asked)
    lines += [Text(f"  {words}") for words in level_words(decision)]
    if decision.reason in {Reason.EXHAUSTED, Reason.ABOVE_CAP}:
        lines.append(Text(f"  fits  {decision.fits or 'nothing of this kind'}", style="bold"))
    if decision.reason is Reason.EXHAUSTED:
        lines.append(Text(f"  then  {when_more(decision)}"))
    if decision.odometers and decision.outcome is Outcome.GRANTED:
        lines.append(Text(f"  odometers {odometers(decision.odometers, ', ')}"))
    if decision.ends is not None:
        lines.append(
            Text(
                f"  ends  {about_end(decision.ends, granted=decision.outcome is Outcome.GRANTED)}",
                style="yellow",
            )
        )
    if decision.crossed:
        crossed = ", ".join(decision.crossed)
        lines.append(Text(f"  crossed {crossed} of the budget", style="yellow"))
    if name := id_of(decision):
        lines.append(Text(f"  id    {name}"))
        if decision.outcome in _DECIDED_BEFORE:
            lines.append(Text(f"  next  {_DECIDED_BEFORE[decision.outcome]} --id {name}`"))
    return lines
