"""`accountant decide`: a ledger without a service, from JSON lines to JSON lines."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from streams.cli.exits import Exit, explained, fail
from streams.cli.options import Json

if TYPE_CHECKING:
    from accountant.partition import Draft, Encoded
    from accountant.policy import Policy
    from accountant.records import Source

_BATCH: Final = 500
_LAST_MS: Final = 253_402_300_799_999
"""The end of the year 9999: the last time that a decision can be written with."""


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

    from accountant.inputs import MOST_BYTES
    from accountant.policy import resolve
    from accountant.records import decode_policy
    from streams.cli.lines import read_lines
    from streams.cli.output import stderr, write_lines

    with explained():
        wanted = None
        if policy is not None:
            try:
                wanted = resolve(decode_policy(policy.read_bytes()))
            except msgspec.MsgspecError as error:
                fail(Exit.USAGE, f"{policy} is no policy: {error}")
        counts: Counter[str] = Counter()
        lines = read_lines(sys.stdin.buffer, MOST_BYTES)
        write_lines(_decided(lines, wanted, application, counts))
    if json:
        sys.stderr.write(msgspec.json.encode(counts).decode() + "\n")
    else:
        text = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
        stderr().print(f"decided {sum(counts.values())} records: {text or 'none'}")


def _decided(
    lines: Iterable[bytes], policy: Policy | None, application: str, counts: Counter[str]
) -> Iterator[bytes]:
    """Yield the whole log: genesis, an opening before a dataset's first request, decisions."""
    from accountant.partition import Draft, Partition, genesis_decision
    from accountant.records import Genesis
    from accountant.refold import apply

    genesis = Genesis(application, 0, 1, window_ms=3_600_000, skew_ms=300_000)
    partition = Partition(genesis)
    draft: Draft | None = None
    for number, line in enumerate(lines):
        source, issued, dataset = _looked_at(line)
        if draft is None:
            first = genesis_decision(genesis, issued or 0)
            apply(partition, first.decision, _hash(first.value))
            draft = Draft(partition)
            yield first.value
        elif number % _BATCH == 0:
            draft.absorb()
            draft = Draft(partition)
        now = max(draft.decided_at, issued or 0)
        if policy is not None and dataset is not None and draft.ledger(dataset) is None:
            opened = _take(draft, "admin", _opening(dataset, policy, now), now)
            counts[opened.decision.outcome] += 1
            yield opened.value
        encoded = _take(draft, source, line, now)
        counts[encoded.decision.outcome] += 1
        yield encoded.value


def _hash(value: bytes) -> str:
    from accountant.partition import hash_of

    return hash_of(value)


def _looked_at(line: bytes) -> tuple[Source, int | None, str | None]:
    """Return the input a line belongs to, its id's time, and the dataset that it may open."""
    from accountant.clock import issued_at
    from accountant.errors import BudgetError
    from accountant.inputs import canonical, check

    source: Source = "requests"
    tag = _tag(line)
    if tag in {"open", "amend", "close"}:
        source = "admin"
    try:
        checked = check(source, canonical(line))
    except BudgetError:
        return source, None, None
    issued = issued_at(checked.body.request_id)
    if issued is not None and issued > _LAST_MS:
        issued = None  # such an id is `issued_in_future` whatever the clock says
    return source, issued, checked.body.dataset if source == "requests" else None


def _tag(line: bytes) -> object:
    import msgspec

    try:
        value = msgspec.json.decode(line)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    return value.get("type") if isinstance(value, dict) else None


def _opening(dataset: str, policy: Policy, now: int) -> bytes:
    """Return the record that opens a dataset; its id depends on nothing but name and time."""
    from accountant.clock import uuid7
    from accountant.records import VERSION, Open, encode

    random = hashlib.sha256(dataset.encode()).digest()[:10]
    record = Open(
        version=VERSION,
        request_id=uuid7(now, random),
        dataset=dataset,
        by="decide",
        policy=policy,
        reason="opened at its first request",
    )
    return encode(record)


def _take(draft: Draft, source: Source, body: bytes, now: int) -> Encoded:
    """Decide one line, which must never stop those after it."""
    from accountant import decide as adjudication
    from accountant.inputs import Input

    record = Input(source, draft.next[source], None, body, now)
    mark = draft.mark()
    try:
        return adjudication.decide(draft, record, now)
    except Exception:
        draft.rewind(mark)
        return adjudication.decide_internal_error(draft, record, now)
