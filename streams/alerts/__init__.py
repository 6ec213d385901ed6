"""Alerts on their way out: to the topic `alerts`, to a webhook, each once as far as can be."""

from __future__ import annotations

from accountant.views.datasets import SeenAlerts

__all__ = ["SeenAlerts"]
