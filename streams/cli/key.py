"""`accountant key`: keys that sign checkpoints."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.printing.exits import Exit, explained, fail
from streams.cli.printing.say import say
from streams.cli.reading.options import DEFAULT_URL, Json, Url

if TYPE_CHECKING:
    from accountant.records.decided import Encoded
    from streams.evidence.keys import SigningKey, Verifier
    from streams.settings import Settings

    Tell = Callable[[int, Encoded | None], None]

app = typer.Typer(help="Keys that sign checkpoints of a log.", no_args_is_help=True)


@app.command("create")
def create(
    file: Annotated[Path, typer.Argument(help="Where to keep the secret: mode 0600.")],
    name: Annotated[
        str, typer.Option(help="What auditors know the key by, such as census.example.org.")
    ] = "accountant",
) -> None:
    """Make an Ed25519 key, and print its public half: give that to whoever audits."""
    from streams.evidence.keys import SigningKey

    with explained():
        say(SigningKey.create(file, name).verifier.text)


@app.command("show")
def show(file: Annotated[Path, typer.Argument(help="A file that `key create` made.")]) -> None:
    """Print the public half of a key."""
    from streams.evidence.keys import SigningKey

    with explained():
        say(SigningKey.load(file).verifier.text)


@app.command("rotate")
def rotate(
    new: Annotated[
        str, typer.Argument(help="The new key's public half, or the file that `key create` made.")
    ],
    reason: Annotated[
        str, typer.Option(help="Why, for people; kept for ever, 1 to 200 characters.")
    ],
    old: Annotated[
        Path | None, typer.Option(help="File of the key before it, which signs the change.")
    ] = None,
    lost: Annotated[
        str | None,
        typer.Option(help="Public half of the key before it, if its file is lost or was stolen."),
    ] = None,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Have another key sign the checkpoints of a stopped ledger's log.

    Writes one decision, `key_changed`, on Kafka one into each partition. Signed by the old key,
    auditors who know that one believe the new one. With --lost it is not, and the new key must be
    given to them again; `audit` tells of it for ever.
    """
    from streams.cli.printing.output import write_lines
    from streams.settings import load_command

    written = 0

    def tell(partition: int, done: Encoded | None) -> None:
        nonlocal written
        written += done is not None
        if json:
            write_lines([] if done is None else [done.value])
        elif done is None:
            say(f"partition {partition}: it has this key, nothing was written")
        else:
            say(f"partition {partition}: decision {done.partition_sequence} names the key")

    if (old is None) == (lost is None):
        fail(Exit.USAGE, "give the key before it", hint="--old FILE, or --lost PUBLIC without it")
    with explained():
        settings = load_command(url=url)
        if settings.ledger.kind == "http":
            fail(Exit.USAGE, "name the ledger itself: sqlite:///FILE or kafka://HOST:PORT")
        _rotate(settings, new, old, lost, reason, tell)
    if not written:
        fail(Exit.FAILED, "the log has this key: nothing was written")


def _rotate(
    settings: Settings, new: str, old: Path | None, lost: str | None, reason: str, tell: Tell
) -> None:
    from streams.evidence.keys import SigningKey, Verifier

    public = SigningKey.load(Path(new)).verifier if Path(new).is_file() else Verifier.parse(new)
    key = None if old is None else SigningKey.load(old)
    before = Verifier.parse(lost or "") if key is None else key.verifier
    if settings.ledger.kind == "kafka":
        asyncio.run(_rotate_partitions(settings, public, before, key, reason, tell))
    else:
        _rotate_file(settings, public, before, key, reason, tell)


def _rotate_file(
    settings: Settings,
    new: Verifier,
    old: Verifier,
    key: SigningKey | None,
    reason: str,
    tell: Tell,
) -> None:
    from streams.client.connect import check_there
    from streams.clock import SystemClock
    from streams.embedded.checkpointing import ledger_id
    from streams.embedded.file_ownership import stopped_ledger
    from streams.evidence.rotate import rotate

    path, clock = Path(settings.ledger[1]).absolute(), SystemClock()
    check_there(path)
    with stopped_ledger(path, settings, clock.now()) as (journal, genesis):
        ledger = ledger_id(path)
        changed = rotate(journal, genesis, clock, ledger, new=new, old=old, key=key, note=reason)
        tell(0, asyncio.run(changed))


async def _rotate_partitions(
    settings: Settings,
    new: Verifier,
    old: Verifier,
    key: SigningKey | None,
    reason: str,
    tell: Tell,
) -> None:
    from streams.clock import SystemClock
    from streams.evidence.rotate import rotate
    from streams.kafka.deployment import deployment_of
    from streams.kafka.genesis import checkpoints_name
    from streams.kafka.journal import KafkaJournal
    from streams.kafka.lost_inputs import NoInputs
    from streams.kafka.restore import check_no_workers

    deployment = deployment_of(settings)
    await check_no_workers(deployment)
    ledger = await checkpoints_name(deployment)
    for partition in range(deployment.partitions):
        journal = KafkaJournal(
            deployment.cluster, deployment.application, deployment.topics, partition, NoInputs()
        )
        genesis = deployment.genesis(partition)
        changed = rotate(
            journal, genesis, SystemClock(), ledger, new=new, old=old, key=key, note=reason
        )
        tell(partition, await changed)
