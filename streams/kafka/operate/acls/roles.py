"""The ACLs that each kind of process needs on the brokers; deploy/kafka ships them.

This is their only definition: `accountant topics acls` prints and applies them, `topics check`
compares a cluster with them, and tests run the processes under them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from streams.kafka.deployment import Deployment
from streams.kafka.operate.acls.bindings import CLUSTER, Binding, Kind, Operation

_READ: Final = (Operation.READ,)
_DELETE: Final = (Operation.DELETE,)
_WRITE: Final = (Operation.WRITE,)
_DESCRIBE: Final = (Operation.DESCRIBE,)
ANSWER_IDS: Final = "answers-"
"""What precedes the partition in a curator's transactional ids, after the application."""
ANSWER_MARKS: Final = "-answers"
"""What ends the name of the consumer group of a curator's marks, after the application."""
RELAY_GROUP: Final = ".alert-relay"
"""What ends the name of the consumer group that sends alerts to their topic."""
_MAINTAIN: Final = (
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.ALTER_CONFIGS,
    Operation.DESCRIBE_CONFIGS,
)

_Operations = Sequence[Operation]


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """The permissions of one kind of process. Everything else is denied.

    Attributes:
        meaning: the processes, in words.
        topics: operations by topic; the keys are those of `topics.SETTINGS`.
        transactional_ids: operations on the application's transactional ids.
        ids_of: which of them, by what follows the application's name; "" for all.
        groups: operations by the suffix of a group's name, after the application.
        cluster: operations on the cluster.
    """

    meaning: str
    topics: Mapping[str, _Operations] = field(default_factory=dict)
    transactional_ids: _Operations = ()
    ids_of: str = ""
    groups: Mapping[str, _Operations] = field(default_factory=dict)
    cluster: _Operations = ()

    def bindings(self, principal: str, deployment: Deployment) -> Iterator[Binding]:
        """Yield the rules that give a principal this role."""
        for topic, operations in self.topics.items():
            name = deployment.topics.of(topic)
            for each in operations:
                yield Binding(principal=principal, operation=each, kind=Kind.TOPIC, name=name)
        for each in self.transactional_ids:
            yield Binding(
                principal=principal,
                operation=each,
                kind=Kind.TRANSACTIONAL_ID,
                name=f"{deployment.application}-{self.ids_of}",
                prefixed=True,
            )
        for end, operations in self.groups.items():
            name = f"{deployment.application}{end}"
            for each in operations:
                yield Binding(principal=principal, operation=each, kind=Kind.GROUP, name=name)
        for each in self.cluster:
            yield Binding(principal=principal, operation=each, kind=Kind.CLUSTER, name=CLUSTER)


ROLES: Final[Mapping[str, Role]] = {
    "auditor": Role(
        meaning="`audit`, `log export`, `head`: reads the ledger and the answers",
        topics={"decisions": _READ, "state": _READ, "answers": _READ},
    ),
    "owner": Role(
        meaning="owners' tools that speak Kafka: writes admin requests, reads the ledger",
        topics={"admin": _WRITE, "requests": _DESCRIBE, "decisions": _READ, "state": _READ},
    ),
    "engine": Role(
        meaning="a program that asks for analysts: trusted to name itself and the analysts",
        topics={"requests": _WRITE, "decisions": _READ, "state": _READ},
    ),
    "gateway": Role(
        meaning="`gateway`: writes authenticated requests, reads the ledger and the answers",
        topics={
            "requests": _WRITE,
            "admin": _WRITE,
            "decisions": _READ,
            "state": _READ,
            "answers": _READ,
        },
    ),
    "curator": Role(
        meaning="`curator`: runs questions, and is the only writer of the answers",
        topics={
            "requests": _WRITE,
            "decisions": _READ,
            "state": _READ,
            "answers": (*_READ, *_WRITE),
        },
        transactional_ids=_WRITE,
        ids_of=ANSWER_IDS,
        groups={ANSWER_MARKS: _READ},
    ),
    "worker": Role(
        meaning="`worker`: decides, and is the only writer of the ledger",
        topics={
            # Workers check the settings of all topics, at their start and each minute.
            "requests": (*_READ, Operation.DESCRIBE_CONFIGS),
            "admin": (*_READ, Operation.DESCRIBE_CONFIGS),
            "decisions": (*_READ, *_WRITE, Operation.DESCRIBE_CONFIGS),
            "state": (*_READ, *_WRITE, Operation.DESCRIBE_CONFIGS),
            "dead_letters": (*_WRITE, Operation.DESCRIBE_CONFIGS),
            "alerts": (*_READ, *_WRITE, Operation.DESCRIBE_CONFIGS),
            # It signs the head of what it reads: the curator, whose answers they are, does not.
            "answers": (*_READ, Operation.DESCRIBE_CONFIGS),
        },
        transactional_ids=_WRITE,
        groups={"": _READ, "-webhook": _READ, RELAY_GROUP: _READ},
    ),
    "operator": Role(
        meaning="`topics`, `log restore`, `clock reset`, `key rotate`, `accept-rollback`: may "
        "write everything, so use it by hand and only while needed",
        topics=dict.fromkeys(
            ("requests", "admin", "decisions", "state", "dead_letters", "alerts", "answers"),
            _MAINTAIN,
        ),
        transactional_ids=_WRITE,
        groups={"": _DESCRIBE, ANSWER_MARKS: _DELETE, RELAY_GROUP: _DELETE},
        cluster=_DESCRIBE,
    ),
}
"""The roles, from the fewest permissions to the most. Analysts have none: they use HTTP."""
