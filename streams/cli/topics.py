"""`accountant topics`: create, check and repair the topics of a ledger on Kafka."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Annotated, cast

import typer

from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import explain_errors, fail, fail_word
from streams.cli.printing.say import say
from streams.cli.reading.options import Json

if TYPE_CHECKING:
    from accountant.records import Source
    from streams.kafka.deployment import Deployment

app = typer.Typer(
    help="Create, check and repair the topics of a ledger on Kafka.", no_args_is_help=True
)

KafkaUrl = Annotated[
    str, typer.Option("--url", envvar="ACCOUNTANT_URL", help="The broker: kafka://HOST:PORT.")
]
Partitions = Annotated[
    int | None,
    typer.Option(
        envvar="ACCOUNTANT_PARTITIONS",
        help="Partitions of each topic; they can never change. Default 4.",
    ),
]
Principals = Annotated[
    list[str] | None,
    typer.Option(
        "--principal",
        metavar="ROLE=NAME",
        help="The principal of a role on the brokers, such as worker=w1; repeatable.",
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
    """Create missing topics and write the genesis record of each log; safe to repeat.

    Exit code 4 if an existing topic has wrong settings.
    """
    from streams.cli.printing.output import print_json
    from streams.kafka.log.topics import create as create_topics

    with explain_errors():
        done = asyncio.run(create_topics(deployment(url, partitions, replication)))
    if json:
        print_json({"done": done})
        return
    for line in done:
        say(line)
    say("topics are ready" if done else "topics were ready already")


@app.command("check")
def check(
    url: KafkaUrl,
    partitions: Partitions = None,
    replication: Replication = None,
    principal: Principals = None,
    json: Json = False,
) -> None:
    """Check partition counts, every setting that durability needs, and the brokers' ACLs.

    Exit code 4 if something differs; the message names it and the command to run. Hidden ACLs and
    brokers without an authorizer are warnings.
    """
    from streams.cli.printing.output import print_json
    from streams.errors import Refused
    from streams.kafka.operate.acls.check import check_acls

    with explain_errors():
        where, named = deployment(url, partitions, replication), _roles(principal)
        problems = asyncio.run(_topic_problems(where))
        found = asyncio.run(check_acls(where, named))
        problems += found.problems
        if json:
            print_json(
                {
                    "ok": not problems,
                    "problems": problems,
                    "warnings": found.warnings,
                    "authorizer": found.authorizer,
                    "roles": found.roles,
                }
            )
        else:
            for warning in found.warnings:
                say(f"warning: {warning}", err=True)
            if problems:
                raise Refused("; ".join(problems))
            say("topics are correct")
            for role, names in found.roles.items():
                say(f"{role}: {', '.join(names)}")
    if problems:
        raise typer.Exit(Exit.OPERATOR)


async def _topic_problems(where: Deployment) -> list[str]:
    from streams.errors import Refused
    from streams.kafka.log.topics import check as check_topics
    from streams.kafka.wire.errors import BrokerAuthFailed

    try:
        await check_topics(where)
    except BrokerAuthFailed:
        raise
    except Refused as error:
        return str(error).split("; ")
    return []


@app.command("acls")
def acls(
    url: KafkaUrl,
    principal: Principals = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Add the ACLs now, as the principal of the settings.")
    ] = False,
    json: Json = False,
) -> None:
    """Print the commands that give each role the ACLs it needs on the brokers, and no more.

    Without `--principal`, for all roles, each with its own name as principal. `--apply` adds the
    ACLs instead, which needs a super user; safe to repeat.
    """
    from streams.cli.printing.output import print_json
    from streams.kafka.operate.acls.bindings import add
    from streams.kafka.operate.acls.commands import TOOL, commands, script
    from streams.kafka.operate.acls.roles import ROLES

    with explain_errors():
        where = deployment(url, None, None)
        roles = _roles(principal) or {f"User:{role}": role for role in ROLES}
        rules = {name: list(ROLES[role].bindings(name, where)) for name, role in roles.items()}
        if apply:
            asyncio.run(add(where.cluster, [rule for some in rules.values() for rule in some]))
    if json:
        for name, role in roles.items():
            lines = list(commands(rules[name], where.cluster.tool(TOOL)))
            print_json({"principal": name, "role": role, "commands": lines, "applied": apply})
    elif apply:
        for name, role in roles.items():
            say(f"{name} is {role}: {len(rules[name])} ACLs")
    else:
        say(script(where, roles), end="")


def _roles(texts: list[str] | None) -> dict[str, str]:
    """Return the role of each principal."""
    from streams.kafka.operate.acls.roles import ROLES

    roles = {}
    for text in texts or ():
        role, _, name = text.partition("=")
        if role not in ROLES:
            rule = f"must be ROLE=NAME with one of the roles {', '.join(ROLES)}"
            fail_word("--principal", rule, role, ROLES)
        name = name if ":" in name else f"User:{name}"
        if name == "User:" or "'" in name or not name.isprintable():
            fail(Exit.USAGE, f"--principal {role}=NAME needs a name, without quotes")
        roles[name] = role
    return roles


@app.command("accept-lost-inputs")
def accept_lost_inputs(
    url: KafkaUrl,
    topic: Annotated[str, typer.Option(help="The input that lost records: requests or admin.")],
    partition: Annotated[int, typer.Option(min=0, help="The partition that lost records.")],
    first: Annotated[
        int,
        typer.Option(
            "--from", min=0, help="The next offset to decide, as in the error of the worker."
        ),
    ],
    reason: Annotated[str, typer.Option(help="Why, at most 200 characters.")],
    partitions: Partitions = None,
    json: Json = False,
) -> None:
    """Let a halted partition continue after inputs that are lost permanently.

    Budgets do not change, and no request is decided twice. Lost requests get no decision: their
    senders must send them again, with the same ids. Exit code 4 if no input is lost, or another
    offset is next.
    """
    from streams.cli.printing.output import print_json, progress
    from streams.cli.stopped_ledger import compare_log
    from streams.clock import SystemClock
    from streams.kafka.operate.lost_inputs import accept_lost_inputs as accept
    from streams.settings import load_command

    if topic not in {"requests", "admin"}:
        fail_word("--topic", "must be requests or admin", topic, ("requests", "admin"))
    with explain_errors(), progress() as bars:
        task = bars.add_task("filling up", total=None)
        where, settings = deployment(url, partitions, None), load_command(url=url)
        done = asyncio.run(
            accept(
                where,
                cast("Source", topic),
                partition,
                first=first,
                reason=reason,
                progress=lambda count, of: bars.update(task, completed=count, total=of),
                compare=partial(compare_log, where, settings, SystemClock()),
            )
        )
    if json:
        print_json({"done": [done]})
    else:
        say(done)


def deployment(url: str, partitions: int | None, replication: int | None) -> Deployment:
    """Return the deployment that an address and the settings name."""
    from streams.address import ledger_url
    from streams.kafka.deployment import deployment_of
    from streams.settings import load_command

    if ledger_url(url).kind != "kafka":
        hint = "use --url kafka://HOST:PORT"
        fail(Exit.USAGE, f"this command needs a ledger on Kafka, got {url}", hint=hint)
    return deployment_of(load_command(url=url, partitions=partitions, replication=replication))
