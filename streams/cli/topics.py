"""`accountant topics`: make, verify and mend what a ledger on Kafka needs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, cast

import typer

from streams.cli.printing.exits import Exit, explained, fail, fail_word
from streams.cli.reading.options import Json

if TYPE_CHECKING:
    from accountant.records import Source
    from streams.kafka.deployment import Deployment

app = typer.Typer(
    help="Make, verify and mend the topics of a ledger on Kafka.", no_args_is_help=True
)

KafkaUrl = Annotated[
    str, typer.Option("--url", envvar="ACCOUNTANT_URL", help="The broker: kafka://HOST:PORT.")
]
Partitions = Annotated[
    int | None,
    typer.Option(
        envvar="ACCOUNTANT_PARTITIONS", help="Partitions of each topic; fixed for ever. Default 4."
    ),
]
Replication = Annotated[
    int | None,
    typer.Option(envvar="ACCOUNTANT_REPLICATION", help="Copies of each partition. Default 1."),
]


@app.command("create")
def create(
    url: KafkaUrl,
    partitions: Partitions = None,
    replication: Replication = None,
    json: Json = False,
) -> None:
    """Make the topics that are missing and write each log's genesis; safe to repeat.

    Exit code 4 if what exists is not as it must be.
    """
    from streams.cli.printing.output import print_json
    from streams.kafka.topics import create as create_topics

    with explained():
        done = asyncio.run(create_topics(deployment(url, partitions, replication)))
    if json:
        print_json({"done": done})
        return
    for line in done:
        typer.echo(line)
    typer.echo("topics are ready" if done else "topics were ready already")


@app.command("check")
def check(
    url: KafkaUrl,
    partitions: Partitions = None,
    replication: Replication = None,
    json: Json = False,
) -> None:
    """Verify partition counts and every setting that the ledger's durability needs.

    Exit code 4 if something differs; the message names it and the command to run.
    """
    from streams.cli.printing.output import print_json
    from streams.errors import Refused
    from streams.kafka.topics import check as check_topics

    with explained():
        try:
            asyncio.run(check_topics(deployment(url, partitions, replication)))
        except Refused as error:
            problems = str(error).split("; ")
            if not json:
                raise
            print_json({"ok": False, "problems": problems})
            raise typer.Exit(Exit.OPERATOR) from None
    if json:
        print_json({"ok": True, "problems": []})
    else:
        typer.echo("topics are as they must be")


@app.command("accept-lost-inputs")
def accept_lost_inputs(
    url: KafkaUrl,
    topic: Annotated[str, typer.Option(help="Which input lost records: requests or admin.")],
    partition: Annotated[int, typer.Option(min=0, help="Of which partition.")],
    first: Annotated[
        int,
        typer.Option(
            "--from", min=0, help="The offset next to be decided, as the halted worker names it."
        ),
    ],
    reason: Annotated[str, typer.Option(help="For people, at most 200 characters.")],
    partitions: Partitions = None,
    json: Json = False,
) -> None:
    """Let a halted partition go on behind inputs that are lost for good.

    Nothing is charged, and nothing that was decided is decided again. Requests that were lost
    get no decision: who sent them sends them again, with the same ids. Exit code 4 if nothing
    is lost, or another offset is next.
    """
    from streams.cli.printing.output import print_json, progress
    from streams.kafka.lost_inputs import accept_lost_inputs as accept

    if topic not in {"requests", "admin"}:
        fail_word("--topic", "must be requests or admin", topic, ("requests", "admin"))
    with explained(), progress() as bars:
        task = bars.add_task("filling up", total=None)
        done = asyncio.run(
            accept(
                deployment(url, partitions, None),
                cast("Source", topic),
                partition,
                first=first,
                reason=reason,
                progress=lambda count, of: bars.update(task, completed=count, total=of),
            )
        )
    if json:
        print_json({"done": [done]})
    else:
        typer.echo(done)


def deployment(url: str, partitions: int | None, replication: int | None) -> Deployment:
    """Return the deployment that an address and the settings name."""
    from streams.address import ledger_url
    from streams.kafka.deployment import deployment_of
    from streams.settings import load

    if ledger_url(url).kind != "kafka":
        fail(Exit.USAGE, f"topics are on Kafka, and {url} is not", hint="--url kafka://HOST:PORT")
    return deployment_of(load(url=url, partitions=partitions, replication=replication))
