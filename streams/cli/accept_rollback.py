"""`accountant accept-rollback`: go on with a log that has lost decisions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.printing.exits import Exit, explained, fail
from streams.cli.printing.say import say
from streams.cli.reading.options import DEFAULT_URL, Json, Url
from streams.cli.stopped_ledger import stopped_settings, write_records

if TYPE_CHECKING:
    from accountant.records.encoded_decision import EncodedDecision
    from streams.cli.stopped_ledger import StoppedLog
    from streams.evidence.store import Kept
    from streams.settings import Settings


def accept_rollback(
    lost: Annotated[
        str, typer.Option(help="The decisions that are lost, FIRST-LAST: the refusal names them.")
    ],
    reason: Annotated[
        str, typer.Option(help="Why, for people; kept for ever, 1 to 200 characters.")
    ],
    partition: Annotated[
        int | None, typer.Option(help="On Kafka: the partition that has lost them.", min=0)
    ] = None,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Go on with a stopped ledger's log that has lost decisions which a checkpoint has seen.

    Such as after a backup was put back on purpose. What was granted in the lost decisions ran, and
    is not charged. Writes one decision, `rolled_back`, signed by the key of the checkpoints;
    `audit` and metrics tell of it for ever.
    """
    from streams.cli.printing.output import write_lines

    with explained():
        settings = stopped_settings(url)
        if (settings.ledger.kind == "kafka") == (partition is None):
            fail(Exit.USAGE, "--partition N goes with a ledger on Kafka, and with no other")
        if partition is not None and settings.checkpoints in {None, "off"}:
            what = "set ACCOUNTANT_CHECKPOINTS to the directory of the workers' checkpoints"
            fail(Exit.USAGE, what)
        written = write_records(
            settings, lambda log: _accept(log, settings, lost, reason), only=partition
        )
    if not written:
        fail(Exit.FAILED, "the log goes on from its newest checkpoint: nothing was written")
    (done,) = written
    if json:
        write_lines([done.value])
        return
    say(
        f"decision {done.partition_sequence}: the decisions {lost} are given up\n"
        "start the ledger again"
    )


async def _accept(
    log: StoppedLog, settings: Settings, lost: str, reason: str
) -> EncodedDecision | None:
    from streams.evidence import operator_records

    place, directory = log.place, settings.checkpoints
    kept: Kept
    digest: Callable[[int], str | None]
    if isinstance(place, Path):
        from streams.embedded import checkpointing

        kept = checkpointing.kept_of(place, settings)
        digest = partial(checkpointing.digest_at, place)
    else:
        from streams.worker import partition_checkpoints

        assert isinstance(directory, Path)
        ledger = await log.ledger_id()
        kept = partition_checkpoints.open_store(
            directory.absolute(), settings, ledger, log.partition
        )
        digest = partial(partition_checkpoints.digest_at, place, log.partition)
    return await operator_records.accept_rollback(
        log.journal, log.genesis, log.clock, kept, digest, lost=lost, note=reason
    )
