"""Kafka's ACLs as values, and the two requests about them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from aiokafka import errors as kafka
from aiokafka.protocol.admin import CreateAclsRequest_v1, DescribeAclsRequest_v1
from aiokafka.protocol.api import Request

from streams.kafka.wire.brokers import Brokers
from streams.kafka.wire.errors import translate_errors
from streams.kafka.wire.security import Cluster

CLUSTER: Final = "kafka-cluster"
"""The name of the only resource of the kind cluster."""
EVERYBODY: Final = "User:*"
ANY_HOST: Final = "*"
_REQUEST_MS: Final = 10_000
_ANY: Final = 1
_PREFIXED: Final = 4
_LITERAL: Final = 3


class Kind(IntEnum):
    """The kind of resource that a rule covers, by Kafka's number."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


class Operation(IntEnum):
    """The operation that a rule allows or denies, by Kafka's number."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12

    @property
    def word(self) -> str:
        """The name in Kafka's own commands."""
        return "".join(part.capitalize() for part in self.name.split("_"))


class _Permission(IntEnum):
    DENY = 2
    ALLOW = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """One ACL: it allows or denies a principal one operation on a resource.

    Attributes:
        name: of the resource; with `prefixed`, the prefix of the names; `*` is every name.
    """

    principal: str
    operation: Operation
    kind: Kind
    name: str
    prefixed: bool = False
    allow: bool = True
    host: str = ANY_HOST

    def is_about(self, kind: Kind, name: str) -> bool:
        """Return whether the rule covers a resource."""
        if kind is not self.kind:
            return False
        return name.startswith(self.name) if self.prefixed else self.name in {name, "*"}


# Own requests: the client library's take one rule at a time, in a version whose encoding brokers
# cannot read.
class _Describe(Request[DescribeAclsRequest_v1]):  # type: ignore[misc]  # no types
    API_KEY = DescribeAclsRequest_v1.API_KEY

    def build(self, request_struct_class: Any) -> Any:
        return request_struct_class(_ANY, None, _ANY, None, None, _ANY, _ANY)


class _Create(Request[CreateAclsRequest_v1]):  # type: ignore[misc]  # no types
    API_KEY = CreateAclsRequest_v1.API_KEY

    def __init__(self, bindings: Sequence[Binding]) -> None:
        self._bindings = bindings

    def build(self, request_struct_class: Any) -> Any:
        return request_struct_class(
            [
                (
                    each.kind,
                    each.name,
                    _PREFIXED if each.prefixed else _LITERAL,
                    each.principal,
                    each.host,
                    each.operation,
                    _Permission.ALLOW if each.allow else _Permission.DENY,
                )
                for each in self._bindings
            ]
        )


async def every_binding(cluster: Cluster) -> list[Binding] | None:
    """Return all rules of a cluster; None where its brokers have no authorizer.

    Raises: Refused: this principal may not describe the cluster; JournalFault.
    """
    async with _connected(cluster) as brokers:
        answer = await brokers.ask_any(_Describe())
        error = kafka.for_code(answer.error_code)
        if error is kafka.SecurityDisabled:
            return None
        if error is not kafka.NoError:
            raise error("DescribeAcls")
        return list(_bindings(answer.resources))


def _bindings(resources: Iterable[Any]) -> Iterable[Binding]:
    for kind, name, pattern, rules in resources:
        for principal, host, operation, permission in rules:
            # Skip other kinds, such as delegation tokens: no ledger uses them.
            if kind in set(Kind) and operation in set(Operation):
                yield Binding(
                    principal=principal,
                    operation=Operation(operation),
                    kind=Kind(kind),
                    name=name,
                    prefixed=pattern == _PREFIXED,
                    allow=permission == _Permission.ALLOW,
                    host=host,
                )


async def add(cluster: Cluster, bindings: Sequence[Binding]) -> None:
    """Add rules; existing ones stay.

    Raises: Refused: this principal may not alter the cluster, or there is no authorizer;
        JournalFault.
    """
    async with _connected(cluster) as brokers:
        answer = await brokers.ask_any(_Create(bindings))
        for code, message in answer.creation_responses:
            if code:
                raise kafka.for_code(code)(message or "CreateAcls")


@asynccontextmanager
async def _connected(cluster: Cluster) -> AsyncIterator[Brokers]:
    brokers = Brokers(cluster, "acls", _REQUEST_MS)
    with translate_errors():
        try:
            await brokers.connect()
            yield brokers
        finally:
            brokers.close()
