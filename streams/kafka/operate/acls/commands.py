"""The roles' ACLs as `kafka-acls.sh` commands, for the administrators of the brokers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from streams.kafka.deployment import Deployment
from streams.kafka.operate.acls.bindings import Binding, Kind, Operation
from streams.kafka.operate.acls.roles import ROLES

TOOL: Final = "kafka-acls.sh"
_OPTIONS: Final = {
    Kind.TOPIC: "--topic",
    Kind.GROUP: "--group",
    Kind.TRANSACTIONAL_ID: "--transactional-id",
}


def script(deployment: Deployment, roles: Mapping[str, str]) -> str:
    """Return a shell script with the commands for some principals.

    Args:
        roles: by principal.
    """
    tool = deployment.cluster.tool(TOOL)
    parts = []
    for principal, role in roles.items():
        rules = ROLES[role].bindings(principal, deployment)
        parts.append("\n".join([f"# {role}: {ROLES[role].meaning}", *commands(rules, tool), ""]))
    return "\n".join(parts)


def commands(bindings: Iterable[Binding], tool: str) -> Iterator[str]:
    """Yield one command for all resources on which a principal has the same operations.

    Args:
        bindings: those of one principal.
        tool: the start of each command.
    """
    operations: dict[tuple[str, Kind, str, bool], list[Operation]] = defaultdict(list)
    for each in bindings:
        operations[each.principal, each.kind, each.name, each.prefixed].append(each.operation)
    names: dict[tuple[str, Kind, bool, tuple[Operation, ...]], list[str]] = defaultdict(list)
    for (principal, kind, name, prefixed), some in operations.items():
        names[principal, kind, prefixed, tuple(some)].append(name)
    for (principal, kind, prefixed, done), resources in names.items():
        words = [tool, "--add", f"--allow-principal '{principal}'"]
        words += [f"--operation {operation.word}" for operation in done]
        if kind is Kind.CLUSTER:
            words.append("--cluster")
        else:
            words += [f"{_OPTIONS[kind]} {name}" for name in resources]
        if prefixed:
            words.append("--resource-pattern-type prefixed")
        yield " ".join(words)
