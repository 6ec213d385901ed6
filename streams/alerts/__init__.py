"""Alerts on their way out: to the topic `alerts`, to a webhook, each once as far as can be."""

from __future__ import annotations

from streams.alerts.seen_alerts import Once

__all__ = ["Once"]
