"""`accountant decide`: decide requests without a service, from JSON lines to JSON lines."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from accountant.display.numbers import counted
from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import check_output_complete, explain_errors
from streams.cli.printing.say import say
from streams.cli.printing.undecided_lines import undecided_words
from streams.cli.reading.options import Json
from streams.cli.reading.policy_options import read_policy

if TYPE_CHECKING:
    from accountant.advice.request_file import Columns
    from accountant.policy import Policy


def decide(
    policy: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="JSON file of the policy that opens each dataset before its first request.",
        ),
    ] = None,
    application: Annotated[
        str, typer.Option(help="Application name in the log's genesis record.")
    ] = "offline",
    json: Json = False,
) -> None:
    """Decide requests from stdin, one JSON object a line; write the decision log to stdout.

    The code of the service decides, so `accountant audit` can check the result. The clock is the
    time in the request id, and never goes back. Admin requests (open, amend, pause, resume, close,
    member, limit) may come between the requests. A summary goes to stderr, as JSON with --json.
    Exit code 1 if a line is invalid, has expired, or has the id of another line.
    """
    import msgspec

    from accountant.advice.request_file import Columns
    from accountant.policy import resolve
    from accountant.records.inputs import MAX_BYTES
    from streams.cli.printing.output import stderr, write_lines
    from streams.ndjson import numbered_lines

    with explain_errors():
        wanted = None if policy is None else resolve(read_policy(policy))
        counts: Counter[str] = Counter()
        columns = Columns()
        lines = numbered_lines(sys.stdin.buffer, MAX_BYTES)
        write_lines(_decided(lines, wanted, application, counts, columns))
    if json:
        first = {"first_not_decided": columns.first} if columns.not_decided else {}
        say(msgspec.json.encode(counts | first).decode(), err=True)
    else:
        text = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
        stderr().print(f"decided {counted(sum(counts.values()), 'record')}: {text or 'none'}")
        if columns.not_decided:
            say(f"not decided: {undecided_words(columns)}", err=True)
    check_output_complete()
    if columns.not_decided:
        raise typer.Exit(Exit.FAILED)


def _decided(
    lines: Iterable[tuple[int, bytes]],
    policy: Policy | None,
    application: str,
    counts: Counter[str],
    columns: Columns,
) -> Iterator[bytes]:
    """Yield the whole log: the genesis, then decisions; openings precede a first request."""
    from accountant.advice.offline import OfflineLedger
    from accountant.display.refusals import broken_rule

    ledger = OfflineLedger(policy, application)
    for number, line in lines:
        for encoded in ledger.take(line):
            decision = encoded.decision
            if decision.partition_sequence:  # 0 is the genesis, which decides nothing
                counts[decision.outcome] += 1
            if decision.outcome.is_not_considered:
                why = "" if decision.error is None else broken_rule(decision.error)
                columns.refuse(number, str(decision.reason or decision.outcome), why)
            yield encoded.value
