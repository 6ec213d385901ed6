"""Public test doubles, and a real Kafka broker for tests.

Nothing here is imported before it is named: the doubles work without the extra `local-kafka`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streams.testing.broker import LocalBroker
    from streams.testing.broker_settings import BrokerError
    from streams.testing.kafka_install import KafkaUnavailable

__all__ = ["BrokerError", "KafkaUnavailable", "LocalBroker"]

_HOMES = {
    "BrokerError": "streams.testing.broker_settings",
    "KafkaUnavailable": "streams.testing.kafka_install",
    "LocalBroker": "streams.testing.broker",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
