"""Whether the rules of a cluster are those of the roles, as far as this principal may see them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from aiokafka import errors as kafka

from streams.errors import Refused
from streams.kafka.acls.bindings import (
    ANY_HOST,
    CLUSTER,
    EVERYBODY,
    Binding,
    Kind,
    Operation,
    every_binding,
)
from streams.kafka.acls.roles import ROLES
from streams.kafka.deployment import Deployment
from streams.kafka.topics import SETTINGS

ANONYMOUS: Final = "User:ANONYMOUS"
_OPERATOR: Final = "operator"
_ALL_BUT_SEEING: Final = frozenset(
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
# By kind: what changes or shows a ledger. Who may only describe it learns names.
_MATTERS: Final[Mapping[Kind, frozenset[Operation]]] = {
    Kind.TOPIC: _ALL_BUT_SEEING - {Operation.CLUSTER_ACTION},
    Kind.TRANSACTIONAL_ID: frozenset({Operation.WRITE}),
    Kind.GROUP: frozenset({Operation.READ, Operation.DELETE}),
    Kind.CLUSTER: frozenset({Operation.ALTER, Operation.ALTER_CONFIGS, Operation.CLUSTER_ACTION}),
}

_SAID: Final = {
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
class Look:
    """What was found.

    Attributes:
        authorizer: whether the brokers have one; None where that was not seen.
        roles: the principals of each role, as their rules say; super users are in no rule.
        problems: rules that let somebody do more, or less, than a role may.
        warnings: what is as it may be, and should be known.
    """

    authorizer: bool | None = None
    roles: dict[str, list[str]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


async def look(deployment: Deployment, named: Mapping[str, str]) -> Look:
    """Compare the rules of a cluster with the roles.

    Args:
        named: the role that a principal must have, by principal. Any other one, but that of
            this process, may have every role except that of operators, who can write everything.
    Raises: JournalFault.
    """
    try:
        bindings = await every_binding(deployment.cluster)
    except Refused as error:
        if not isinstance(error.__cause__, kafka.ClusterAuthorizationFailedError):
            raise
        principal = deployment.security.principal
        return Look(
            warnings=[
                f"ACLs not seen: {principal} may not describe the cluster, as an operator may"
            ]
        )
    if bindings is None:
        decisions = deployment.topics.decisions
        open_to_all = (
            "the brokers have no authorizer: whoever reaches them may write every topic, "
            f"{decisions} too"
        )
        return Look(authorizer=False, warnings=[open_to_all])
    return compared(deployment, bindings, named)


def compared(deployment: Deployment, bindings: Sequence[Binding], named: Mapping[str, str]) -> Look:
    """As `look`, for rules that are known."""
    found = Look(authorizer=True)
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
            found.problems.append(f"{principal}, which is nobody in particular, may {_listed(has)}")
        elif principal == deployment.security.principal and has <= allowed[_OPERATOR]:
            found.roles.setdefault(fitting[0] if fitting else _OPERATOR, []).append(principal)
        elif fitting:
            found.roles.setdefault(fitting[0], []).append(principal)
        elif all(right.operation is Operation.READ for right in has):
            found.warnings.append(f"{principal} may {_listed(has)}: of no role, but only reads")
        else:
            found.problems.append(
                f"{principal} may {_listed(has)}: together of no role (an operator is named by "
                f"`--principal {_OPERATOR}={principal.removeprefix('User:')}`)"
            )
    return found


def rights(deployment: Deployment, bindings: Iterable[Binding]) -> dict[str, frozenset[Right]]:
    """Return what each principal may do with the ledger, of what matters."""
    ids = (f"{deployment.application}-{number}" for number in range(deployment.partitions))
    groups = (f"{deployment.application}{end}" for end in ("", "-webhook"))
    resources = [
        *((Kind.TOPIC, deployment.topics.of(topic)) for topic in SETTINGS),
        *((Kind.TRANSACTIONAL_ID, each) for each in ids),
        *((Kind.GROUP, each) for each in groups),
        (Kind.CLUSTER, CLUSTER),
    ]
    given: dict[str, set[Right]] = defaultdict(set)
    denied: dict[str, set[Right]] = defaultdict(set)
    for binding in bindings:
        if not binding.allow and binding.host != ANY_HOST:
            continue  # from other machines it may
        for kind, name in resources:
            if binding.is_about(kind, name):
                each = (
                    _MATTERS[kind]
                    if binding.operation is Operation.ALL
                    else _MATTERS[kind] & {binding.operation}
                )
                to = given if binding.allow else denied
                to[binding.principal] |= {Right(kind, name, operation) for operation in each}
    for_nobody = denied[EVERYBODY]
    left = {who: frozenset(has - denied[who] - for_nobody) for who, has in given.items()}
    return {who: has for who, has in left.items() if has}


def _listed(some: Iterable[Right]) -> str:
    """Return rights in words; problems are separated by semicolons, so there is none here."""
    names: dict[str, set[str]] = defaultdict(set)
    for kind, name, operation in some:
        said = _SAID.get(kind)
        names[operation.word].add(f"{said} {name}" if kind is Kind.GROUP else said or name)
    return ", ".join(f"{word} {'/'.join(sorted(names[word]))}" for word in sorted(names))
