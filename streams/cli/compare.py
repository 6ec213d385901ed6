"""`accountant compare`: what each alternative to a policy would admit of a file of requests."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, NoReturn

import typer

from accountant.display.numbers import counted
from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import explain_errors, fail
from streams.cli.printing.say import say
from streams.cli.printing.undecided_lines import undecided_words
from streams.cli.reading.options import Json
from streams.cli.reading.policy_options import read_policy

if TYPE_CHECKING:
    from accountant.advice.compare import Alternative, Comparison, ComparisonTally
    from accountant.advice.fixed_in_advance import FixedInAdvance
    from accountant.advice.request_file import Columns
    from accountant.policy import Policy


def compare(
    policy: Annotated[
        Path, typer.Option(metavar="FILE", help="JSON of the policy to compare others with.")
    ],
    json: Json = False,
) -> None:
    """Decide requests from stdin under a policy and under each of its alternatives.

    Reads one JSON object a line: requests as for `decide`, or a decision log, whose requests are
    decided again in order of time. The alternatives are every other filter with the same budget,
    and each odometer as a rule that stops before its reading passes epsilon. All of them decide
    with the code of the service. The last row is the best composition of the same requests, had
    they been fixed in advance. Admin requests are left out. Exit code 1 if any other line cannot
    be decided; the reasons are printed.
    """
    from accountant.advice.compare import Comparison
    from accountant.advice.request_file import Columns
    from streams.cli.printing.output import print_json

    with explain_errors():
        wanted = read_policy(policy)
        comparison, best = Comparison(wanted), _best(wanted)
        columns = Columns()
        _take_all(comparison, best, sys.stdin.buffer, columns)
        alternatives = (*comparison.alternatives(), _shown(best))
    if not columns.decided:
        if json:
            print_json(_of_input(columns))
        _fail(columns)
    if json:
        _print_json(alternatives, _of_input(columns))
    else:
        _print_tables(alternatives)
    _report_input(columns, json=json)
    if columns.not_decided:
        raise typer.Exit(Exit.FAILED)


def _best(policy: Policy) -> FixedInAdvance | None:
    """Return what counts the optimum, None without numpy."""
    try:
        from accountant.advice.fixed_in_advance import FixedInAdvance
    except ImportError:
        return None
    return FixedInAdvance(policy)


def _shown(best: FixedInAdvance | None) -> Alternative:
    from accountant.advice.compare import Alternative
    from streams.errors import install_command

    if best is not None:
        return best.alternative
    return Alternative(
        "comparator", "optimal_mixed", why_not=f"run {install_command('mechanisms')}"
    )


def _take_all(
    comparison: Comparison, best: FixedInAdvance | None, stream: BinaryIO, columns: Columns
) -> None:
    """Decide every request, and count the outcome of each line."""
    from accountant.advice.request_file import read_in_order
    from accountant.records.inputs import MAX_BYTES
    from streams.cli.printing.output import progress
    from streams.ndjson import numbered_lines

    # A decision contains its request, and about as much again.
    asked = read_in_order(numbered_lines(stream, 4 * MAX_BYTES), columns)
    with progress() as shown:
        for each in shown.track(asked, description="deciding"):
            encoded = comparison.take(each.body)
            granted = encoded.decision.granted
            if not (granted or encoded.outcome.is_refusal):
                columns.refuse(each.number, str(encoded.reason or encoded.outcome))
                continue
            columns.decided += 1
            if best is not None:
                best.take(encoded, comparison.lines)


def _of_input(columns: Columns) -> dict[str, Any]:
    return {
        "decided": columns.decided,
        "repeated": columns.repeated,
        "left_out": columns.left_out,
        "not_decided": columns.reasons,
        "first_not_decided": columns.first,
    }


def _fail(columns: Columns) -> NoReturn:
    """End the command if no request was decided."""
    hint = "send one request a line, as for `accountant decide`, or a decision log"
    if columns.not_decided:
        message = f"no request on stdin can be decided: {undecided_words(columns)}"
        fail(Exit.FAILED, message, hint=hint)
    others = columns.left_out + columns.repeated
    only = f", only {counted(others, 'record')} left out" if others else ""
    fail(Exit.FAILED, f"stdin has no request{only}", hint=hint)


def _report_input(columns: Columns, *, json: bool) -> None:
    """Print to stderr how many lines were decided; with --json only if some were not."""
    if not json:
        more = f", {columns.repeated} repeated" if columns.repeated else ""
        others = counted(columns.left_out, "admin request")
        more += f", {others} left out" if columns.left_out else ""
        decided = counted(columns.decided, "request")
        say(f"decided {decided} under each alternative{more}", err=True)
    if columns.not_decided:
        say(f"not decided: {undecided_words(columns)}", err=True)


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
            tally = alternative.at(dataset)
            if alternative.decides:
                row |= {
                    "admitted": tally.admitted,
                    "refused": tally.refused,
                    "not_taken": tally.not_taken,
                    "first_refusal": tally.first_refusal,
                    "spent_ratio": tally.spent_ratio,
                }
            if alternative.kind == "odometer":
                row["reading"] = tally.reading
            print_json(row)


def _print_tables(alternatives: tuple[Alternative, ...]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from accountant.display.numbers import spent_amount
    from streams.cli.printing.output import spent_bar, stdout

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
            tally = alternative.at(dataset)
            reading = "" if tally.reading is None else spent_amount(tally.reading)
            if not alternative.decides:
                table.add_row(label, "", *["–"] * 4, reading)
                continue
            bar = spent_bar(tally.spent_ratio, 6)
            table.add_row(label, bar, *_counts(tally), reading)
        stdout().print(table)
    stdout().print(
        "* the policy's own filter. An odometer row counts what a rule admits that is fixed in "
        "advance and stops before the reading passes epsilon; its reading is after the grants of "
        "the policy's own filter. optimal_mixed is no filter: it is how many would fit if every "
        "request were fixed in advance, and were known by its epsilon and delta alone.",
        soft_wrap=True,
    )
    for alternative in alternatives:
        remark = alternative.settings
        if alternative.why_not:
            remark = f"not for this budget: {alternative.why_not}"
        if remark:
            line = Text(f"{alternative.kind} {alternative.name}: {remark}", style="dim")
            stdout().print(line, soft_wrap=True)


def _counts(tally: ComparisonTally) -> tuple[str, str, str, str]:
    first = "–" if tally.first_refusal is None else str(tally.first_refusal)
    return str(tally.admitted), str(tally.refused), str(tally.not_taken or "–"), first
