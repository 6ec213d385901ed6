"""`accountant compare`: a policy's alternatives side by side, on a file of requests."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, NoReturn

import typer

from streams.cli.printing.exits import Exit, explained, fail
from streams.cli.reading.options import Json
from streams.cli.reading.policy_options import policy_in

if TYPE_CHECKING:
    from accountant.advice.compare import Alternative, Comparison, Tally
    from accountant.comparators.fixed_in_advance import FixedInAdvance
    from accountant.policy import Policy
    from accountant.records import Decision

_OWNERS = {"open", "amend"}


@dataclass(slots=True)
class _Taken:
    """What became of the lines of stdin.

    Attributes:
        decided, invalid, left_out: how many. What is left out is no request.
        first_invalid: number of the first line that is invalid, from 1.
        wrong: field, rule and value of that line.
    """

    decided: int = 0
    invalid: int = 0
    left_out: int = 0
    first_invalid: int | None = None
    wrong: str = ""


def compare(
    policy: Annotated[
        Path, typer.Option(metavar="FILE", help="JSON of the policy to compare others with.")
    ],
    json: Json = False,
) -> None:
    """Decide requests from stdin under a policy and under each of its alternatives.

    One JSON object a line: requests as for `decide`, or a decision log, whose requests are
    asked again. The policy's filter is replaced by each other one with the same budget, and
    each odometer is tried as a rule that stops where its reading would pass epsilon. Every
    alternative decides by the code of the service. Beside them stands the best composition of the
    same requests, had they been fixed in advance. Records that open or amend are left out.
    Exit code 1 if there is no request that can be decided.
    """
    from accountant.advice.compare import Comparison
    from streams.cli.printing.output import print_json

    with explained():
        wanted = policy_in(policy)
        comparison, best = Comparison(wanted), _best(wanted)
        taken = _take_all(comparison, best, sys.stdin.buffer)
        alternatives = (*comparison.alternatives(), _shown(best))
    if not taken.decided:
        if json:
            print_json(_of_input(taken))
        _fail(taken)
    if json:
        _print_json(alternatives, _of_input(taken))
    else:
        _print_tables(alternatives)
    _tell(taken, json=json)


def _best(policy: Policy) -> FixedInAdvance | None:
    """Return what counts the optimum, None without numpy."""
    try:
        from accountant.comparators.fixed_in_advance import FixedInAdvance
    except ImportError:
        return None
    return FixedInAdvance(policy)


def _shown(best: FixedInAdvance | None) -> Alternative:
    from accountant.advice.compare import Alternative

    if best is not None:
        return best.alternative
    return Alternative("comparator", "optimal_mixed", why_not="it needs the extra `plots`")


def _take_all(comparison: Comparison, best: FixedInAdvance | None, stream: BinaryIO) -> _Taken:
    """Decide every line, and return what became of them."""
    from accountant.records.inputs import MOST_BYTES
    from accountant.records.outcomes import Outcome
    from streams.cli.printing.output import progress
    from streams.cli.reading.json_lines import numbered_lines

    taken = _Taken()
    with progress() as shown:
        task = shown.add_task("deciding", total=None)
        # A decision repeats its request and adds about as much again.
        for number, line in numbered_lines(stream, 4 * MOST_BYTES):
            request = _request_in(line)
            if request is None:
                taken.left_out += 1
            elif (encoded := comparison.take(request)).outcome is not Outcome.INVALID:
                taken.decided += 1
                if best is not None:
                    best.take(encoded, comparison.lines)
            else:
                taken.invalid += 1
                if taken.first_invalid is None:
                    taken.first_invalid = number
                    taken.wrong = _wrong(encoded.decision)
            shown.advance(task)
    return taken


def _wrong(decision: Decision) -> str:
    """Return what is wrong with an invalid request."""
    from streams.cli.printing.tables import broken_rule

    return str(decision.reason) if decision.error is None else broken_rule(decision.error)


def _of_input(taken: _Taken) -> dict[str, Any]:
    return {"invalid": taken.invalid, "first_invalid": taken.first_invalid}


def _fail(taken: _Taken) -> NoReturn:
    """End the command where there is nothing to compare by."""
    hint = "one request a line, as for `accountant decide`, or a decision log"
    if taken.invalid:
        message = f"no request on stdin can be decided: {_invalid(taken)}"
        fail(Exit.FAILED, message, hint=hint)
    only = f" but {taken.left_out} records left out" if taken.left_out else ""
    fail(Exit.FAILED, f"there is no request on stdin{only}", hint=hint)


def _invalid(taken: _Taken) -> str:
    return f"{taken.invalid} invalid, the first in line {taken.first_invalid}: {taken.wrong}"


def _tell(taken: _Taken, *, json: bool) -> None:
    """Say on stderr what became of the input; with --json only where some of it is invalid."""
    from rich.text import Text

    from streams.cli.printing.output import stderr

    if not json:
        more = f", {taken.left_out} owners' records left out" if taken.left_out else ""
        stderr().print(f"decided {taken.decided} requests under each{more}")
    if taken.invalid:
        stderr().print(Text(f"not decided: {_invalid(taken)}"), soft_wrap=True)


def _request_in(line: bytes) -> bytes | None:
    """Return the request that a line holds, None if it is an owner's record or a genesis."""
    from accountant.advice.offline import tag_of
    from accountant.records import DECODE_ERRORS, decode_decision

    tag = tag_of(line)
    if tag == "decision":
        try:
            decision = decode_decision(line)
        except DECODE_ERRORS:
            return line  # to be counted as what it is: invalid
        line = bytes(decision.request)
        tag = tag_of(line)
        if not line:
            return None
    return None if tag in _OWNERS else line


def _datasets(alternatives: Iterable[Alternative]) -> list[str]:
    return sorted({name for alternative in alternatives for name in alternative.tallies})


def _print_json(alternatives: tuple[Alternative, ...], of_input: dict[str, Any]) -> None:
    from streams.cli.printing.output import print_json

    for dataset in _datasets(alternatives):
        for alternative in alternatives:
            row: dict[str, Any] = {
                "dataset": dataset,
                "kind": alternative.kind,
                "name": alternative.name,
                "own": alternative.own,
                "settings": alternative.settings,
            } | of_input
            if alternative.why_not:
                print_json(row | {"why_not": alternative.why_not})
                continue
            stands = alternative.at(dataset)
            if alternative.decides:
                row |= {
                    "admitted": stands.admitted,
                    "refused": stands.refused,
                    "not_taken": stands.not_taken,
                    "first_refusal": stands.first_refusal,
                    "spent_ratio": stands.spent_ratio,
                }
            if alternative.kind == "odometer":
                row["reading"] = stands.reading
            print_json(row)


def _print_tables(alternatives: tuple[Alternative, ...]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from streams.cli.printing.output import short, spent_bar, stdout

    for dataset in _datasets(alternatives):
        table = Table(title=dataset, title_justify="left", header_style="bold", box=SIMPLE_HEAD)
        table.add_column("filter or odometer", overflow="fold")
        table.add_column("spent", no_wrap=True)
        for name in ("admitted", "refused", "not taken", "first refused", "reads (nats)"):
            table.add_column(name, justify="right", overflow="fold")
        kind = "filter"
        for alternative in alternatives:
            if alternative.kind != kind:
                table.add_section()
                kind = alternative.kind
            label = Text(alternative.name, style="bold" if alternative.own else "")
            label.append(" *" if alternative.own else "")
            if alternative.why_not:
                continue
            stands = alternative.at(dataset)
            reading = "" if stands.reading is None else short(stands.reading, 4)
            if not alternative.decides:
                table.add_row(label, "", *["–"] * 4, reading)
                continue
            bar = spent_bar(stands.spent_ratio, 6)
            table.add_row(label, bar, *_counts(stands), reading)
        stdout().print(table)
    stdout().print(
        "* the policy's own. An odometer's counts are those of a rule, fixed in advance, that "
        "stops where its reading would pass epsilon; what it reads is after the grants of the "
        "policy's own filter. optimal_mixed is no filter: so many fit if each were fixed "
        "in advance, and is known by its epsilon and delta alone.",
        soft_wrap=True,
    )
    for alternative in alternatives:
        remark = alternative.settings
        if alternative.why_not:
            remark = f"not for this budget: {alternative.why_not}"
        if remark:
            line = Text(f"{alternative.kind} {alternative.name}: {remark}", style="dim")
            stdout().print(line, soft_wrap=True)


def _counts(stands: Tally) -> tuple[str, str, str, str]:
    first = "–" if stands.first_refusal is None else str(stands.first_refusal)
    return str(stands.admitted), str(stands.refused), str(stands.not_taken or "–"), first
