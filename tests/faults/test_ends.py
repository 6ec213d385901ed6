"""`accountant serve` ends after one signal, and its next start knows what was cut."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import httpx
import pytest

from tests.faults.ends import Role, make_slow_source
from tests.nightly import NIGHTLY
from tests.patience import PATIENCE_S
from tests.streams.curator.curated import SCHEMA, member, opened, question, session

STARTS = ("streams.cli",)

pytestmark = pytest.mark.faults

_TERM, _INT = signal.SIGTERM, signal.SIGINT
_JSON = {"content-type": "application/json"}


def becomes(condition: Callable[[], object], what: str) -> None:
    """Return once a condition holds."""
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.05)


@contextmanager
def serving(directory: Path, name: str, **settings: str) -> Iterator[tuple[Role, httpx.Client]]:
    """Run a server of the ledger and of its slow source."""
    sources = directory / "sources.json"
    if not sources.exists():
        make_slow_source(directory / "slow.duckdb")
        source = {"kind": "duckdb", "path": str(directory / "slow.duckdb"), "table": "slow"}
        fast = {"kind": "csv", "path": str(directory / "fast.csv")}
        (directory / "fast.csv").write_text("age,region\n30,north\n")
        sources.write_text(json.dumps({"slow": source | {"threads": 1}, "census": fast}))
    role = Role(
        name,
        directory,
        {
            "ACCOUNTANT_URL": f"sqlite:///{directory / 'ledger.db'}",
            "ACCOUNTANT_CHECKPOINTS": "off",
            "ACCOUNTANT_DATA_SOURCES": str(sources),
            "ACCOUNTANT_CURATOR_TICK_SECONDS": "0.1",
            **settings,
        },
        "serve",
        *("--port", "0"),
    )
    try:
        becomes(lambda: role.says("listening at "), "it listens")
        address = role.log.split("listening at ")[1].split()[0]
        with httpx.Client(base_url=address, timeout=PATIENCE_S, headers=_JSON) as client:
            yield role, client
    finally:
        role.kill()


def post(client: httpx.Client, path: str, body: bytes) -> Any:
    answer = client.post(path, content=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def open_dataset(client: httpx.Client, name: str, source: str) -> None:
    kind = {"slow": "duckdb", "census": "csv"}[source]
    schema = SCHEMA | {"source": {"kind": kind, "name": source}}
    post(client, "/datasets", opened(name, schema=schema))
    post(client, f"/datasets/{name}/members", member("curator", "curator", dataset=name))


def steps(directory: Path) -> list[str]:
    """Return the kinds of the stored steps."""
    path = str(directory / "ledger.db.answers")
    db = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return [kind for (kind,) in db.execute("SELECT kind FROM steps ORDER BY kind")]
    finally:
        db.close()


def test_a_server_whose_answer_waits_for_a_distant_tick_ends(tmp_path: Path) -> None:
    with serving(tmp_path, "first", ACCOUNTANT_CURATOR_TICK_SECONDS="3600") as (role, client):
        open_dataset(client, "census", "census")
        with client.stream("GET", "/events"):  # a client that goes on reading
            post(client, "/requests", question())
            becomes(lambda: "attempt_1" in steps(tmp_path), "the question runs")
            time.sleep(0.3)  # most likely it is drawn then; either way the server ends
            assert role.end(_TERM) == 0, role.log
    with serving(tmp_path, "second") as (_, client):
        becomes(lambda: len(client.get("/datasets/census/answers").json()["answers"]) == 1, "")


@pytest.mark.skipif(not NIGHTLY, reason="each reads for five seconds")
@pytest.mark.parametrize("number", [_TERM, _INT], ids=["SIGTERM", "SIGINT"])
@pytest.mark.parametrize("is_session", [False, True], ids=["plain", "session"])
def test_a_server_with_a_long_reading_ends(
    tmp_path: Path, number: signal.Signals, is_session: bool
) -> None:
    with serving(tmp_path, "first") as (role, client):
        open_dataset(client, "census", "slow")
        post(client, "/requests", session() if is_session else question())
        step = "begin" if is_session else "attempt_1"
        becomes(lambda: step in steps(tmp_path), "the question runs")
        assert role.end(number) == 0, role.log
        assert role.says("question_cut")
    if not is_session:
        assert steps(tmp_path) == []
        return
    assert steps(tmp_path) == ["begin", "settle"]
    with serving(tmp_path, "second") as (_, client):
        (answer,) = client.get("/datasets/census/answers").json()["answers"]
        assert answer["outcome"] == "failed"
        assert client.get("/datasets/census/reservations").json()["reservations"] == []
