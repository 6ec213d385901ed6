"""A topic as a sink for checkpoints; imports the Kafka client only when it is used."""

from __future__ import annotations

from streams.errors import Refused, name_missing_extra
from streams.evidence.sinks import Address, ReadableSink
from streams.settings import Settings


def topic_sink(address: Address, settings: Settings) -> ReadableSink:
    """Return the topic at an address.

    Raises: Refused: it is a topic of a ledger. NotInstalled: without the extra `kafka`.
    """
    with name_missing_extra():
        from streams.kafka.deployment import TopicNames
        from streams.kafka.log.checkpoint_topic import Topic
        from streams.kafka.log.topics import SETTINGS
        from streams.kafka.wire.security import Cluster, security_of

    if address.topic in map(TopicNames(settings.topic_prefix).of, SETTINGS):
        raise Refused(f"{address.name} is a topic of a ledger: use another topic for checkpoints")
    # Another cluster uses the same security settings: there are none for a second cluster.
    return Topic(Cluster(address.target, security_of(settings)), address.topic)
