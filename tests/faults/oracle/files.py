"""The check of a ledger in one SQLite file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import apsw

from tests.faults.oracle.disagreement import Disagreement
from tests.faults.oracle.partition import INPUTS, InputAsSent, Partition
from tests.faults.oracle.repeated import input_of
from tests.faults.oracle.rows import Letter, check_letters, check_state
from tests.faults.oracle.wire import canonical


class Contents(NamedTuple):
    """The content of a ledger's file, in bytes."""

    decisions: Sequence[bytes]
    rows: Mapping[bytes, bytes]
    letters: Sequence[Letter]


def contents(file: Path) -> Contents:
    """Return the content of a file, which reading may change."""
    # The same library as the ledger's, whose file may be open in this very process.
    with closing(apsw.Connection(str(file))) as db:
        decisions = [v for (v,) in db.execute("SELECT value FROM decisions ORDER BY sequence")]
        rows = dict(db.execute("SELECT key, value FROM state"))
        letters = [
            Letter(None, value, {"source": source, "offset": str(offset), "reason": reason})
            for source, offset, reason, value in db.execute(
                "SELECT source, offset, reason, value FROM dead_letters ORDER BY rowid"
            )
        ]
    return Contents(decisions, rows, letters)


def judge_file(
    found: Contents,
    inputs: Mapping[str, Sequence[InputAsSent]],
    *,
    internal_errors: frozenset[tuple[str, int]] = frozenset(),
) -> Partition:
    """Check a file against all its inputs, and return the resulting state.

    Raises: Disagreement.
    """
    taken = {source: list(inputs.get(source, ())) for source in INPUTS}
    partition = Partition(0, taken, internal_errors)
    for value in found.decisions:
        partition.take(value)
    partition.finish()
    check_state(partition, found.rows)
    check_letters(partition, found.letters, kafka=False)
    return partition


def inputs_of(
    found: Contents,
    sent: Callable[[bytes], bool] | Iterable[bytes],
    between: tuple[int, int],
) -> dict[str, list[InputAsSent]]:
    """Return the inputs of a file of killed writers; only the file has their order.

    A body stands where the log says that it came; it must be one that was sent, byte for byte.

    Args:
        sent: the bodies that were sent, or a function that knows them.
        between: when they were sent, milliseconds since 1970.
    Raises: Disagreement: a decision repeats what nobody has sent.
    """
    if not callable(sent):
        known = {canonical(body) for body in sent}
        sent = known.__contains__
    inputs: dict[str, list[InputAsSent]] = {source: [] for source in INPUTS}
    for value in found.decisions[1:]:
        decision = json.loads(value)
        source = decision.get("source")
        if source is None:
            continue
        body = input_of(value)
        if body is None or not sent(body):
            raise Disagreement("inputs", body, "a body that was sent")
        inputs[source["topic"]].append(InputAsSent(source["offset"], None, body, between))
    for records in inputs.values():
        offsets = [each.offset for each in records]
        if offsets != list(range(len(offsets))):
            raise Disagreement("inputs", offsets[:5], "0 and on without a gap")
    return inputs
