"""Delivery of alerts to the topic `alerts` and to a webhook, each alert once if possible."""

from __future__ import annotations

from accountant.views.datasets import SeenAlerts

__all__ = ["SeenAlerts"]
