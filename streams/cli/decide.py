"""`accountant decide`: a ledger without a service, from JSON lines to JSON lines."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.printing.exits import check_whole, explained
from streams.cli.printing.say import say
from streams.cli.reading.options import Json
from streams.cli.reading.policy_options import policy_in

if TYPE_CHECKING:
    from accountant.policy import Policy


def decide(
    policy: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="JSON of the policy under which datasets are opened at first sight.",
        ),
    ] = None,
    application: Annotated[str, typer.Option(help="Name in the log's genesis.")] = "offline",
    json: Json = False,
) -> None:
    """Decide requests from stdin, one JSON object a line; write the decision log to stdout.

    The same code decides as in a service, so `accountant audit` reads the result. The clock
    is the later of the previous one and the id's own time. Owners' records (open, amend,
    close) may stand among the requests. A summary goes to stderr, as JSON with --json.
    """
    import msgspec

    from accountant.policy import resolve
    from accountant.records.inputs import MOST_BYTES
    from streams.cli.printing.output import stderr, write_lines
    from streams.cli.reading.json_lines import read_lines

    with explained():
        wanted = None if policy is None else resolve(policy_in(policy))
        counts: Counter[str] = Counter()
        lines = read_lines(sys.stdin.buffer, MOST_BYTES)
        write_lines(_decided(lines, wanted, application, counts))
    if json:
        say(msgspec.json.encode(counts).decode(), err=True)
    else:
        text = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
        stderr().print(f"decided {sum(counts.values())} records: {text or 'none'}")
    check_whole()


def _decided(
    lines: Iterable[bytes], policy: Policy | None, application: str, counts: Counter[str]
) -> Iterator[bytes]:
    """Yield the whole log: genesis, an opening before a dataset's first request, decisions."""
    from accountant.advice.offline import OfflineLedger
    from accountant.records.outcomes import Outcome

    ledger = OfflineLedger(policy, application)
    for line in lines:
        for encoded in ledger.take(line):
            if encoded.decision.outcome is not Outcome.GENESIS:
                counts[encoded.decision.outcome] += 1
            yield encoded.value
