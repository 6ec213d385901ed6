"""The description of one ledger on Kafka: brokers, names of topics, genesis."""

from __future__ import annotations

from dataclasses import dataclass

from accountant.partition.key_hash import home_of
from accountant.records import Genesis
from accountant.records.placement import Placement, record_key
from streams.errors import Refused
from streams.kafka.wire.security import UNSECURED, Cluster, Security, security_of
from streams.settings import Settings


@dataclass(frozen=True, slots=True)
class TopicNames:
    """The names of the topics, each with the same prefix."""

    prefix: str = ""

    def of(self, topic: str) -> str:
        """Return the name of one of `topics.SETTINGS`."""
        return f"{self.prefix}{topic.replace('_', '-')}"

    @property
    def requests(self) -> str:
        """The topic of mechanism requests."""
        return self.of("requests")

    @property
    def admin(self) -> str:
        """The topic of admin requests."""
        return self.of("admin")

    @property
    def decisions(self) -> str:
        """The topic of decisions, the ledger itself."""
        return self.of("decisions")

    @property
    def state(self) -> str:
        """The topic of state, a cache of the decisions."""
        return self.of("state")

    @property
    def dead_letters(self) -> str:
        """The topic of dead letters: inputs that cannot be decided as requests."""
        return self.of("dead_letters")

    @property
    def alerts(self) -> str:
        """The topic of alerts about thresholds that were reached."""
        return self.of("alerts")

    @property
    def answers(self) -> str:
        """The topic of the answers to questions."""
        return self.of("answers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """The brokers of one ledger, its topics, and the settings in its genesis.

    Attributes:
        bootstrap: `host:port`.
        application: prefix of transactional ids, and the consumer group.
        partitions: number of partitions of every topic.
        replication: number of copies of each partition; 3 in production.
        window_ms, skew_ms, placement: see `records.Genesis`.
        security: of every connection.
    """

    bootstrap: str
    application: str = "accountant"
    topics: TopicNames = TopicNames()
    partitions: int = 4
    replication: int = 1
    window_ms: int = 3_600_000
    skew_ms: int = 300_000
    placement: Placement = "name"
    security: Security = UNSECURED

    @property
    def cluster(self) -> Cluster:
        """Where the brokers are, and how to connect to them."""
        return Cluster(self.bootstrap, self.security)

    def genesis(self, partition: int) -> Genesis:
        """Return the genesis in decision 0 of a partition."""
        return Genesis(
            application=self.application,
            partition=partition,
            partitions=self.partitions,
            window_ms=self.window_ms,
            skew_ms=self.skew_ms,
            placement=self.placement,
        )

    def key_of(self, dataset: str) -> bytes:
        """Return the key of a dataset's records."""
        return record_key(dataset, self.placement).encode()

    def partition_of(self, dataset: str) -> int:
        """Return the partition of a dataset."""
        return home_of(dataset, self.placement, self.partitions)


def deployment_of(settings: Settings) -> Deployment:
    """Return the deployment that the settings name.

    Raises: Refused: the settings name a ledger that is not on Kafka, or a file of its security
        cannot be used.
    """
    kind, target = settings.ledger
    if kind != "kafka":
        raise Refused(f"{settings.url} is not on Kafka: set ACCOUNTANT_URL=kafka://HOST:PORT")
    return Deployment(
        bootstrap=target,
        application=settings.application,
        topics=TopicNames(settings.topic_prefix),
        partitions=settings.partitions,
        replication=settings.replication,
        window_ms=settings.window_ms,
        skew_ms=settings.skew_ms,
        placement=settings.placement,
        security=security_of(settings),
    )
