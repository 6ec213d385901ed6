"""Compare a cluster's ACLs with the roles, as far as this principal may see the ACLs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from aiokafka import errors as kafka

from streams.errors import Refused
from streams.kafka.deployment import Deployment
from streams.kafka.log.topics import SETTINGS
from streams.kafka.operate.acls.bindings import (
    ANY_HOST,
    CLUSTER,
    EVERYBODY,
    Binding,
    Kind,
    Operation,
    every_binding,
)
from streams.kafka.operate.acls.roles import ANSWER_IDS, ROLES

ANONYMOUS: Final = "User:ANONYMOUS"
_OPERATOR: Final = "operator"
_ALL_BUT_DESCRIBE: Final = frozenset(
    {
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.ALTER_CONFIGS,
        Operation.CLUSTER_ACTION,
    }
)
# By kind: the operations that change or show a ledger. To describe it reveals names alone.
_MATTERS: Final[Mapping[Kind, frozenset[Operation]]] = {
    Kind.TOPIC: _ALL_BUT_DESCRIBE - {Operation.CLUSTER_ACTION},
    Kind.TRANSACTIONAL_ID: frozenset({Operation.WRITE}),
    Kind.GROUP: frozenset({Operation.READ, Operation.DELETE}),
    Kind.CLUSTER: frozenset({Operation.ALTER, Operation.ALTER_CONFIGS, Operation.CLUSTER_ACTION}),
}

_KIND_LABELS: Final = {
    Kind.TRANSACTIONAL_ID: "transactional ids",
    Kind.GROUP: "group",
    Kind.CLUSTER: "the cluster",
}


class Right(NamedTuple):
    """One thing that can be done with one resource of the ledger."""

    kind: Kind
    name: str
    operation: Operation


@dataclass(slots=True)
class AclReport:
    """The result of a check.

    Attributes:
        authorizer: whether the brokers have one; None if this principal may not see that.
        roles: the principals of each role, by their rules; super users are in no rule.
        problems: rules that allow a principal more, or less, than its role.
        warnings: permitted findings that an operator should know.
    """

    authorizer: bool | None = None
    roles: dict[str, list[str]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


async def check_acls(deployment: Deployment, named: Mapping[str, str]) -> AclReport:
    """Compare the rules of a cluster with the roles.

    Args:
        named: the role that a principal must have, by principal. Other principals may have any
            role except operator, who can write everything; this process's own may have that, too.
    Raises: JournalFault.
    """
    try:
        bindings = await every_binding(deployment.cluster)
    except Refused as error:
        if not isinstance(error.__cause__, kafka.ClusterAuthorizationFailedError):
            raise
        principal = deployment.security.principal
        return AclReport(
            warnings=[
                f"ACLs not checked: {principal} may not describe the cluster; an operator may"
            ]
        )
    if bindings is None:
        decisions = deployment.topics.decisions
        open_to_all = (
            "the brokers have no authorizer: everyone who can reach them may write every topic, "
            f"also {decisions}"
        )
        return AclReport(authorizer=False, warnings=[open_to_all])
    return compare(deployment, bindings, named)


def compare(
    deployment: Deployment, bindings: Sequence[Binding], named: Mapping[str, str]
) -> AclReport:
    """As `check_acls`, for rules that are known."""
    found = AclReport(authorizer=True)
    allowed = {
        role: rights(deployment, list(ROLES[role].bindings(role, deployment)))[role]
        for role in ROLES
    }
    by_principal = rights(deployment, bindings)
    for principal, role in named.items():
        has = by_principal.pop(principal, frozenset())
        found.roles.setdefault(role, []).append(principal)
        if missing := allowed[role] - has:
            found.problems.append(f"{principal} may not {_listed(missing)}, which {role}s need")
        if more := has - allowed[role]:
            found.problems.append(f"{principal} may {_listed(more)}, which no {role} may")
    for principal, has in sorted(by_principal.items()):
        fitting = [role for role in ROLES if role != _OPERATOR and has <= allowed[role]]
        if principal in {EVERYBODY, ANONYMOUS}:
            found.problems.append(f"{principal}, which is everyone, may {_listed(has)}")
        elif principal == deployment.security.principal and has <= allowed[_OPERATOR]:
            found.roles.setdefault(fitting[0] if fitting else _OPERATOR, []).append(principal)
        elif fitting:
            found.roles.setdefault(fitting[0], []).append(principal)
        elif all(right.operation is Operation.READ for right in has):
            found.warnings.append(f"{principal} may {_listed(has)}: it has no role and only reads")
        else:
            found.problems.append(
                f"{principal} may {_listed(has)}: no role allows all of this (if it is an "
                f"operator, add `--principal {_OPERATOR}={principal.removeprefix('User:')}`)"
            )
    return found


def rights(deployment: Deployment, bindings: Iterable[Binding]) -> dict[str, frozenset[Right]]:
    """Return each principal's operations on the ledger, of those in `_MATTERS`."""
    ids = [
        f"{deployment.application}-{kind}{number}"
        for kind in ("", ANSWER_IDS)
        for number in range(deployment.partitions)
    ]
    ends = sorted({end for role in ROLES.values() for end in role.groups})
    groups = (f"{deployment.application}{end}" for end in ends)
    resources = [
        *((Kind.TOPIC, deployment.topics.of(topic)) for topic in SETTINGS),
        *((Kind.TRANSACTIONAL_ID, each) for each in ids),
        *((Kind.GROUP, each) for each in groups),
        (Kind.CLUSTER, CLUSTER),
    ]
    allowed: dict[str, set[Right]] = defaultdict(set)
    denied: dict[str, set[Right]] = defaultdict(set)
    for binding in bindings:
        if not binding.allow and binding.host != ANY_HOST:
            continue  # the principal may still do it from other machines
        for kind, name in resources:
            if binding.is_about(kind, name):
                each = (
                    _MATTERS[kind]
                    if binding.operation is Operation.ALL
                    else _MATTERS[kind] & {binding.operation}
                )
                to = allowed if binding.allow else denied
                to[binding.principal] |= {Right(kind, name, operation) for operation in each}
    denied_to_all = denied[EVERYBODY]
    effective = {
        principal: frozenset(has - denied[principal] - denied_to_all)
        for principal, has in allowed.items()
    }
    return {principal: has for principal, has in effective.items() if has}


def _listed(some: Iterable[Right]) -> str:
    """Return rights in words, without a semicolon: semicolons separate the problems."""
    names: dict[str, set[str]] = defaultdict(set)
    for kind, name, operation in some:
        label = _KIND_LABELS.get(kind)
        names[operation.word].add(f"{label} {name}" if kind is Kind.GROUP else label or name)
    return ", ".join(f"{word} {'/'.join(sorted(names[word]))}" for word in sorted(names))
