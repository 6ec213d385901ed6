"""The broker with TLS and users of the tests on Kafka: one of these files uses it."""

from __future__ import annotations

from tests.kafka import conftest as kafka

secured_broker = kafka.secured_broker
