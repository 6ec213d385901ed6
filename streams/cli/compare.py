"""`accountant compare`: a policy's alternatives side by side, on a file of requests."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streams.cli.exits import explained
from streams.cli.options import Json
from streams.cli.policies import policy_in

if TYPE_CHECKING:
    from streams.comparing import Alternative, Comparison, Standing

_OWNERS = {"open", "amend"}


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
    alternative decides by the code of the service. Records that open or amend are left out.
    """
    from accountant.inputs import MOST_BYTES
    from streams.cli.lines import read_lines
    from streams.comparing import Comparison

    with explained():
        comparison = Comparison(policy_in(policy))
        # A decision repeats its request and adds about as much again.
        left_out = _take_all(comparison, read_lines(sys.stdin.buffer, 4 * MOST_BYTES))
        alternatives = comparison.alternatives()
    if json:
        _print_json(alternatives)
    else:
        _print_tables(alternatives, comparison.lines, left_out)


def _take_all(comparison: Comparison, lines: Iterable[bytes]) -> int:
    """Decide every line, and return how many were left out."""
    from streams.cli.output import progress

    left_out = 0
    with progress() as shown:
        task = shown.add_task("deciding", total=None)
        for line in lines:
            request = _request_in(line)
            if request is None:
                left_out += 1
            else:
                comparison.take(request)
            shown.advance(task)
    return left_out


def _request_in(line: bytes) -> bytes | None:
    """Return the request that a line holds, None if it is an owner's record or a genesis."""
    import msgspec

    from accountant.records import decode_decision
    from streams.offline import tag_of

    tag = tag_of(line)
    if tag == "decision":
        try:
            decision = decode_decision(line)
        except msgspec.MsgspecError:
            return line  # to be counted as what it is: invalid
        line = bytes(decision.request)
        tag = tag_of(line)
        if not line:
            return None
    return None if tag in _OWNERS else line


def _datasets(alternatives: Iterable[Alternative]) -> list[str]:
    return sorted({name for alternative in alternatives for name in alternative.standings})


def _print_json(alternatives: tuple[Alternative, ...]) -> None:
    from streams.cli.output import print_json

    for dataset in _datasets(alternatives):
        for alternative in alternatives:
            row: dict[str, Any] = {
                "dataset": dataset,
                "kind": alternative.kind,
                "name": alternative.name,
                "own": alternative.own,
                "settings": alternative.settings,
            }
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


def _print_tables(alternatives: tuple[Alternative, ...], lines: int, left_out: int) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from streams.cli.output import short, spent_bar, stderr, stdout

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
        "policy's own filter.",
        soft_wrap=True,
    )
    for alternative in alternatives:
        remark = alternative.settings
        if alternative.why_not:
            remark = f"not for this budget: {alternative.why_not}"
        if remark:
            line = Text(f"{alternative.kind} {alternative.name}: {remark}", style="dim")
            stdout().print(line, soft_wrap=True)
    more = f", {left_out} owners' records left out" if left_out else ""
    stderr().print(f"decided {lines} requests under each{more}")


def _counts(stands: Standing) -> tuple[str, str, str, str]:
    first = "–" if stands.first_refusal is None else str(stands.first_refusal)
    return str(stands.admitted), str(stands.refused), str(stands.not_taken or "–"), first
