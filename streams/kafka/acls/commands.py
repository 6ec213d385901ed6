"""The rules of the roles as commands of Kafka's own, for whoever administers the brokers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from streams.kafka.acls.bindings import Binding, Kind, Operation

_OPTIONS: Final = {
    Kind.TOPIC: "--topic",
    Kind.GROUP: "--group",
    Kind.TRANSACTIONAL_ID: "--transactional-id",
}


def commands(bindings: Iterable[Binding], tool: str) -> Iterator[str]:
    """Yield a command for all resources of which a principal may do the same.

    Args:
        bindings: those of one principal.
        tool: how each begins.
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
