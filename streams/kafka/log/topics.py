"""Create and check the topics, with the settings that the durability argument needs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from aiokafka import errors as kafka
from aiokafka.admin import NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from streams.errors import Refused
from streams.kafka.deployment import Deployment
from streams.kafka.log.genesis import ledger_id, write_genesis
from streams.kafka.wire.admin import admin_of
from streams.kafka.wire.errors import translate_errors
from streams.processing.journal import new_ledger_id

_INPUTS: Final = ("requests", "admin")
_FOREVER: Final = {"retention.ms": "-1", "retention.bytes": "-1"}
_INPUT: Final = {
    "cleanup.policy": "delete",
    "message.timestamp.type": "LogAppendTime",
    "compression.type": "uncompressed",
    # Of a whole batch, as Kafka's own default: clients fill batches of about 1 MB unless configured
    # otherwise. The limit of one record is checked when it is decided (`oversize`).
    "max.message.bytes": "1048588",
    # 30 days: an input must outlast every outage, because each input must get a decision.
    "retention.ms": "2592000000",
    "retention.bytes": "-1",
}

# A batch in these topics has up to `wire.batches.BATCH_BYTES`, a single record much less.
_BATCH: Final = {"max.message.bytes": "1048588"}

_KNOWN_TRIES: Final = 100

SETTINGS: Final[dict[str, dict[str, str]]] = {
    "requests": _INPUT,
    "admin": _INPUT,
    "decisions": {
        "cleanup.policy": "delete",
        **_FOREVER,
        "message.timestamp.type": "CreateTime",
        **_BATCH,
    },
    "state": {
        "cleanup.policy": "compact",
        "segment.bytes": "16777216",
        "message.timestamp.type": "CreateTime",
        **_BATCH,
    },
    # A dead letter too long for its topic would halt the partition that writes it.
    "dead_letters": {"cleanup.policy": "delete", **_BATCH},
    # Alerts are few and stored for ever: a reader from the beginning learns all published ones.
    "alerts": {"cleanup.policy": "delete", **_FOREVER, **_BATCH},
    # The first answer of a grant is the answer for ever, so none may be deleted.
    "answers": {
        "cleanup.policy": "delete",
        **_FOREVER,
        # A session shows up to 64 levels of up to 10,000 groups.
        "max.message.bytes": "16777216",
    },
}
"""The settings of each topic: `create` sets them and `check` requires them."""


async def create(deployment: Deployment) -> list[str]:
    """Create the topics that are missing, and the genesis of each empty decision log.

    Safe to repeat, also while workers run: it writes nothing into a log with decisions, but checks
    that their genesis has the settings. It creates the inputs last: so a partition whose inputs
    took records has a genesis, or has lost its ledger.

    Returns: the completed steps, in words.
    Raises: Refused: an existing topic or log is not as it must be. Unavailable.
    """
    async with admin_of(deployment.cluster) as admin:
        with translate_errors():
            existing = set(await admin.list_topics())
        inputs = [name for name in map(deployment.topics.of, _INPUTS) if name in existing]
        ledger = [topic for topic in SETTINGS if topic not in _INPUTS]
        done = await create_missing(admin, deployment, ledger)
        await check_all(admin, deployment, ledger, created=bool(done))
        id_of_all: str | msgspec.UnsetType = new_ledger_id()
        for partition in range(deployment.partitions):
            if partition == 1:  # another process may have been the first to write partition 0
                id_of_all = await ledger_id(deployment)
            if await write_genesis(deployment, partition, inputs, id_of_all):
                done.append(f"wrote genesis of partition {partition}")
        done += await create_missing(admin, deployment, _INPUTS)
        await check_all(admin, deployment, list(SETTINGS), created=bool(done))
    return done


async def create_missing(admin: Any, deployment: Deployment, topics: Sequence[str]) -> list[str]:
    """Create the missing ones of these topics; return the completed steps, in words."""
    with translate_errors():
        existing = set(await admin.list_topics())
    done = []
    for topic in topics:
        settings = SETTINGS[topic]
        name = deployment.topics.of(topic)
        if name in existing:
            continue
        copies = {
            "min.insync.replicas": str(max(1, deployment.replication - 1)),
            "unclean.leader.election.enable": "false",
        }
        new = NewTopic(
            name,
            deployment.partitions,
            deployment.replication,
            topic_configs={**settings, **copies},
        )
        with translate_errors():
            response = await admin.create_topics([new])
            for _, code, *rest in response.topic_errors:
                # Another `create` may have been faster; `check_all` then checks its topic.
                if code not in (0, kafka.TopicAlreadyExistsError.errno):
                    raise kafka.for_code(code)(str(rest))
        done.append(f"created {name}")
    return done


async def check(deployment: Deployment) -> None:
    """Verify partition counts and every setting.

    Raises: Refused: something differs; the message names it and the command to run.
    """
    async with admin_of(deployment.cluster) as admin:
        await check_all(admin, deployment, list(SETTINGS), created=False)


async def check_all(
    admin: Any, deployment: Deployment, topics: Sequence[str], *, created: bool
) -> None:
    """Verify these topics; after a creation try repeatedly, since brokers learn of it in turn.

    Raises: Refused.
    """
    for tries_left in reversed(range(_KNOWN_TRIES if created else 1)):
        problems = await _problems(admin, deployment, topics)
        if not problems:
            return
        if tries_left:
            await asyncio.sleep(0.1)
    raise Refused("; ".join(problems))


async def check_partition_counts(
    deployment: Deployment, topics: Iterable[str] = tuple(SETTINGS)
) -> None:
    """Verify only that topics exist with the right number of partitions.

    Raises: Refused: a topic is missing, or has another number of partitions; JournalFault.
    """
    names = [deployment.topics.of(topic) for topic in topics]
    async with admin_of(deployment.cluster) as admin:
        missing = await _missing(admin, deployment, names)
        if missing:
            raise Refused(missing)
        with translate_errors():
            described = await admin.describe_topics(names)
    problems = _count_problems(deployment, described)
    if problems:
        raise Refused("; ".join(problems))


def wrong_count(deployment: Deployment, topic: str, count: int) -> str | None:
    """Return the problem of a topic with `count` partitions, None if the number is right."""
    if count == deployment.partitions:
        return None
    return (
        f"{topic} has {count} partitions, the setting says {deployment.partitions}: a dataset "
        "would be split. Restore the topic, or set ACCOUNTANT_PARTITIONS to the value that "
        "`accountant topics create` had"
    )


async def _missing(admin: Any, deployment: Deployment, names: Sequence[str]) -> str | None:
    """Return the problem of missing topics, None if all exist."""
    with translate_errors():
        existing = set(await admin.list_topics())
    missing = [name for name in names if name not in existing]
    if not missing:
        return None
    said = f"missing topics: {', '.join(missing)}. Run `accountant topics create`"
    if deployment.security.is_off:
        return said
    # Brokers answer the same for a missing topic and for one that this principal may not see.
    principal = deployment.security.principal
    return f"{said}. If they exist, {principal} may not see them: run `accountant topics acls`"


async def _problems(admin: Any, deployment: Deployment, topics: Sequence[str]) -> list[str]:
    names = {topic: deployment.topics.of(topic) for topic in topics}
    missing = await _missing(admin, deployment, list(names.values()))
    if missing:
        return [missing]
    with translate_errors():
        described = await admin.describe_topics(list(names.values()))
        resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names.values()]
        responses = await admin.describe_configs(resources)
    problems = _count_problems(deployment, described)
    found = {
        resource[3]: {config[0]: config[1] for config in resource[4]}
        for response in responses
        for resource in response.resources
    }
    problems += _durability_problems(deployment, described, found)
    for topic, name in names.items():
        for key, wanted in SETTINGS[topic].items():
            got = found.get(name, {}).get(key)
            if got != wanted:
                problems.append(
                    f"{name}: {key} is {got}, must be {wanted}. Run "
                    f"`{_alter_command(deployment, name, f'{key}={wanted}')}`"
                )
    return problems


def _count_problems(deployment: Deployment, described: Sequence[Any]) -> list[str]:
    found = (
        wrong_count(deployment, entry["topic"], len(entry["partitions"])) for entry in described
    )
    return [problem for problem in found if problem]


def _durability_problems(
    deployment: Deployment, described: Sequence[Any], found: dict[str, dict[str, str]]
) -> list[str]:
    """Return the settings with which the loss of one broker could undo acknowledged writes."""
    problems = []
    least = max(1, deployment.replication - 1)
    for entry in described:
        name = entry["topic"]
        # An empty list: the answering broker does not know the topic's partitions yet.
        copies = min((len(partition["replicas"]) for partition in entry["partitions"]), default=0)
        if copies < deployment.replication:
            problems.append(
                f"{name} has {copies} copies, must have {deployment.replication}. Run "
                f"`{deployment.cluster.tool('kafka-reassign-partitions.sh')} "
                "--reassignment-json-file FILE --execute`, or set ACCOUNTANT_REPLICATION"
            )
        settings = found.get(name, {})
        if int(settings.get("min.insync.replicas", "0")) < least:
            problems.append(
                f"{name}: min.insync.replicas is {settings.get('min.insync.replicas')}, must be "
                f"at least {least}. Run "
                f"`{_alter_command(deployment, name, f'min.insync.replicas={least}')}`"
            )
        if settings.get("unclean.leader.election.enable") != "false":
            problems.append(
                f"{name}: unclean.leader.election.enable must be false. Run "
                f"`{_alter_command(deployment, name, 'unclean.leader.election.enable=false')}`"
            )
    return problems


def _alter_command(deployment: Deployment, name: str, setting: str) -> str:
    """Return the whole command that changes a topic's setting, ready to copy."""
    return (
        f"{deployment.cluster.tool('kafka-configs.sh')} --alter --topic {name} "
        f"--add-config {setting}"
    )
