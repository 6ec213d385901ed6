"""A server as an office has it: datasets of several filters, used to different parts."""

from __future__ import annotations

from typing import Any

from tests.streams.auth.roles_server import RolesServer
from tests.streams.gateway.records import request

DATASETS: dict[str, dict[str, Any]] = {
    "census": {"filter": "basic", "epsilon": "1", "delta": "0.000001", "population": "city"},
    "health-survey": {
        "filter": "fully_adaptive",
        "epsilon": "2",
        "delta": "0.000001",
        "odometers": [{"type": "mixture", "delta": "1e-6", "r": "0.5"}],
        "population": "city",
    },
    "mobility": {"filter": "basic", "epsilon": "0.5"},
    "old-survey": {"filter": "basic", "epsilon": "0.3"},
    "payroll": {"filter": "basic", "epsilon": "3"},
}
USED = {
    "census": ["0.1", "0.15", "0.05"],
    "health-survey": ["0.2", "0.1", "0.2"],
    "mobility": ["0.25", "0.2"],
    "old-survey": ["0.3"],
}


def furnish(server: RolesServer) -> None:
    """Open the datasets for olga, with ana and ben as analysts, and have ana ask."""
    for dataset, policy in DATASETS.items():
        server.open_for_olga(dataset, access="members", **policy)
        server.enrol(dataset, "ana", "analyst")
        server.enrol(dataset, "ben", "analyst", "auditor")
    server.clock.pass_(seconds=1)  # type: ignore[attr-defined]
    for dataset, asked in USED.items():
        for epsilon in asked:
            claim = {"type": "pure", "epsilon": epsilon}
            body = request(server.clock, dataset=dataset, claim=claim)
            server.done("ana", "/requests", body, "granted")
