"""The HTTP door of a ledger, embedded or on Kafka."""

from __future__ import annotations

from streams.gateway.app import create_app
from streams.gateway.server import serve, serve_kafka

__all__ = ["create_app", "serve", "serve_kafka"]
