"""A server of a ledger's file, of which a session is reserved and settled step by step."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, Self

from litestar.testing import TestClient

from accountant.times import uuid7
from streams.embedded.service import EmbeddedService
from streams.server.app import Pages, create_app
from streams.settings import Settings
from streams.testing.doubles import ManualClock

NOON = 1_795_262_400_000  # 2026-11-21T12:00:00Z
MINUTE = 60_000
SESSION = {"type": "brownian", "variance": "400", "sensitivity": "1", "first": "10000"}
SETTINGS = Settings(checkpoints="off", port=0)


class Server:
    """A server of one ledger's file, which can be started again."""

    def __init__(self, file: Path, *, pages: Pages | None = None) -> None:
        self.file, self.clock = file, ManualClock(NOON)
        self._pages = pages
        self._ids = itertools.count(1)

    def start(self) -> Self:
        self._service = EmbeddedService.open(self.file, SETTINGS, clock=self.clock)
        app = create_app(self._service, SETTINGS, clock=self.clock, pages=self._pages)
        self._client = TestClient(app, base_url="http://127.0.0.1:8000")
        self._client.__enter__()
        return self

    def stop(self) -> None:
        self._client.__exit__(None, None, None)
        self._service.close_sync()

    def restart(self) -> None:
        self.stop()
        self.start()

    def post(self, path: str, **fields: Any) -> dict[str, Any]:
        made = uuid7(self.clock.now(), b"\0" + next(self._ids).to_bytes(8) + b"\0")
        return self.send(path, {"version": 1, "request_id": made, **fields})

    def send(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = self._client.post(path, json=body)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def reserve(self, until: str = "PT30M", *, dataset: str = "census") -> dict[str, Any]:
        more = {"unit": "person", "neighbours": "add_remove", "claim": SESSION}
        reserve = {"until": until}
        return self.post(
            "/requests", type="request", analyst="ana", dataset=dataset, reserve=reserve, **more
        )

    def step(self, kind: str, grant: dict[str, Any], **fields: Any) -> dict[str, Any]:
        named = {"dataset": "census", "grant": grant["hash"], "analyst": "ana"} | fields
        return self.post(f"/datasets/{named['dataset']}/reservations/{kind}", type=kind, **named)

    def dataset(self) -> dict[str, Any]:
        found: dict[str, Any] = self._client.get("/datasets/census").json()
        return found

    def get(self, path: str) -> Any:
        return self._client.get(path).json()
