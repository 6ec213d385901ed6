"""Public test doubles, and a real Kafka broker for tests.

Each name is imported at its first use, so the doubles work without the extra `local-kafka`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streams.testing.broker import LocalBroker
    from streams.testing.broker_settings import BrokerError
    from streams.testing.doubles import (
        Crash,
        CrashPoints,
        ManualBackground,
        ManualClock,
        MemoryJournal,
        MemoryLog,
        RecordingObserver,
        VirtualTimeLoop,
    )
    from streams.testing.kafka_install import KafkaUnavailable

__all__ = [
    "BrokerError",
    "Crash",
    "CrashPoints",
    "KafkaUnavailable",
    "LocalBroker",
    "ManualBackground",
    "ManualClock",
    "MemoryJournal",
    "MemoryLog",
    "RecordingObserver",
    "VirtualTimeLoop",
]

_HOMES = {
    "BrokerError": "streams.testing.broker_settings",
    "Crash": "streams.testing.doubles",
    "CrashPoints": "streams.testing.doubles",
    "KafkaUnavailable": "streams.testing.kafka_install",
    "LocalBroker": "streams.testing.broker",
    "ManualBackground": "streams.testing.doubles",
    "ManualClock": "streams.testing.doubles",
    "MemoryJournal": "streams.testing.doubles",
    "MemoryLog": "streams.testing.doubles",
    "RecordingObserver": "streams.testing.doubles",
    "VirtualTimeLoop": "streams.testing.doubles",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
