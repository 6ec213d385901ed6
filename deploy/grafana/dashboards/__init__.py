"""Grafana's dashboards as code: `make dashboards` writes `deploy/grafana/json/`."""

from __future__ import annotations
