"""`accountant accept-rollback`: continue a log that has lost decisions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import explain_errors, fail
from streams.cli.printing.say import say
from streams.cli.reading.options import DEFAULT_URL, Json, Url
from streams.cli.stopped_ledger import stopped_settings, write_records

if TYPE_CHECKING:
    from accountant.records.encoded_decision import EncodedDecision
    from streams.cli.stopped_ledger import StoppedLog
    from streams.evidence.store import CheckpointStore
    from streams.settings import Settings


def accept_rollback(
    lost: Annotated[
        str,
        typer.Option(
            metavar="FIRST-LAST",
            help="The lost decisions, FIRST-LAST, as in the error of the ledger.",
        ),
    ],
    reason: Annotated[str, typer.Option(help="Why; recorded permanently, 1 to 200 characters.")],
    partition: Annotated[
        int | None, typer.Option(help="On Kafka: the partition that lost them.", min=0)
    ] = None,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Continue a stopped ledger whose log has lost decisions that a checkpoint proves.

    For example after a backup was restored on purpose. Mechanisms that were granted in the lost
    decisions ran, and are no longer charged. Writes one decision, `rolled_back`, signed by the key
    of the checkpoints; `audit` and the metrics report it permanently.
    """
    from streams.cli.printing.output import write_lines

    with explain_errors():
        settings = stopped_settings(url)
        if (settings.ledger.kind == "kafka") == (partition is None):
            fail(Exit.USAGE, "--partition N is for a ledger on Kafka, which needs it")
        if partition is not None and settings.checkpoints in {None, "off"}:
            hint = "set ACCOUNTANT_CHECKPOINTS to the directory of the workers' checkpoints"
            fail(Exit.USAGE, "no directory of checkpoints is named", hint=hint)
        written = write_records(
            settings, lambda log: _accept(log, settings, lost, reason), only=partition
        )
    if not written:
        fail(
            Exit.FAILED,
            "the log has lost no decision since its newest checkpoint: nothing was written",
        )
    (done,) = written
    if json:
        write_lines([done.value])
        return
    say(
        f"decision {done.partition_sequence} records that decisions {lost} are lost\n"
        "next: start the ledger again"
    )


async def _accept(
    log: StoppedLog, settings: Settings, lost: str, reason: str
) -> EncodedDecision | None:
    from streams.evidence import operator_records

    place, directory = log.place, settings.checkpoints
    store: CheckpointStore
    digest: Callable[[int], str | None]
    if isinstance(place, Path):
        from streams.embedded import checkpointing

        store = checkpointing.kept_of(place, settings)
        digest = partial(checkpointing.digest_at, place)
    else:
        from streams.worker import partition_checkpoints

        assert isinstance(directory, Path)
        ledger = await log.ledger_id()
        store = partition_checkpoints.partition_store(
            directory.absolute(), settings, ledger, log.partition
        )
        digest = partial(partition_checkpoints.digest_at, place, log.partition)
    return await operator_records.accept_rollback(
        log.journal,
        log.genesis,
        log.clock,
        store,
        digest,
        lost=lost,
        note=reason,
        check_name=log.check_name,
    )
