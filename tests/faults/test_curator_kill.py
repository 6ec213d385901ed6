"""A server that answers questions is killed at random moments: each grant has one answer."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from accountant.answers import NoisyAnswer, decode_answer
from accountant.partition import hash_of
from tests.faults import oracle
from tests.faults.server_process import Clients, ServerProcess
from tests.faults.settled_sessions import check_session
from tests.faults.sqlite_life import copied
from tests.ledger_file import connected
from tests.nightly import NIGHTLY, rounds
from tests.patience import PATIENCE_S
from tests.streams.alerts.receiver import until
from tests.streams.curator.curated import member, opened, question, session, write_data

pytestmark = pytest.mark.faults

KILLS: Final = rounds(6, 200)


class Bodies:
    """Draws questions: plain ones and sessions, some of them sent again."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._sent = list[bytes]()

    def draw(self) -> bytes:
        if self._sent and self._chance.random() < 0.15:
            return self._chance.choice(self._sent)
        body = session() if self._chance.random() < 0.4 else question()
        self._sent.append(body)
        return body


class Watcher:
    """Reads the store all the time, as readers do, and keeps every answer that it saw."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stop = threading.Event()
        self.seen: dict[str, set[bytes]] = {}
        self.reads = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        thread = threading.Thread(target=self._watch)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join(PATIENCE_S)
            assert not thread.is_alive()

    def _watch(self) -> None:
        while not self._stop.wait(0.02):
            if self._path.exists():
                self.look()

    def kinds(self) -> Counter[str]:
        """Count the answers: of plain questions, and of sessions by their outcome."""
        kinds = Counter[str]()
        for values in list(self.seen.values()):
            answer = decode_answer(min(values))
            kinds["plain" if answer.shown is None else answer.outcome] += answer.outcome != "failed"
        return kinds

    def look(self) -> None:
        for grant, value in stored(self._path):
            self.seen.setdefault(grant, set()).add(value)
        self.reads += 1


def decisions(file: Path, to: Path) -> list[tuple[str, dict[str, Any]]]:
    """Return the decisions of a file that no process has open, with their hashes."""
    found = oracle.contents(copied(file, to))
    return [(hash_of(value), json.loads(value)) for value in found.decisions]


def prepared(tmp_path: Path) -> dict[str, str]:
    """Return the settings of a server that answers questions."""
    write_data(tmp_path / "census.csv")
    sources = tmp_path / "sources.json"
    sources.write_text(
        json.dumps({"census": {"kind": "csv", "path": str(tmp_path / "census.csv")}})
    )
    return {
        "ACCOUNTANT_URL": f"sqlite:///{tmp_path / 'ledger.db'}",
        "ACCOUNTANT_CHECKPOINTS": "off",
        "ACCOUNTANT_DATA_SOURCES": str(sources),
        "ACCOUNTANT_CURATOR_TICK_SECONDS": "0.1",
        "ACCOUNTANT_LIMIT_PER_SECOND": "0",
    }


def set_up(address: str) -> None:
    with httpx.Client(base_url=address, timeout=PATIENCE_S) as client:
        headers = {"content-type": "application/json"}
        for path, body in (
            ("/datasets", opened("census")),
            ("/datasets/census/members", member("curator", "curator")),
        ):
            answer = client.post(path, content=body, headers=headers)
            assert answer.status_code == 200, answer.text


def stored(path: Path) -> list[tuple[str, bytes]]:
    """Return the grants and the answers in a store, as another process reads them."""
    with connected(path) as db:
        return [*db.execute("SELECT grant_hash, value FROM answers")]


def is_finished(address: str, store: Path, granted: int) -> bool:
    page = httpx.get(f"{address}/datasets/census/reservations?limit=500", timeout=PATIENCE_S).json()
    begun = [each for each in page["reservations"] if each["state"] == "begun"]
    return len(stored(store)) == granted and not begun


# A kill and its restart take 2 s, and 40 under a heavy load.
@pytest.mark.timeout(7_200 if NIGHTLY else 2_400)
def test_each_grant_has_one_answer_over_kills_of_the_server(tmp_path: Path) -> None:
    chance = random.Random(7)
    settings, store = prepared(tmp_path), tmp_path / "ledger.db.answers"
    clients, watcher = Clients(Bodies(7).draw), Watcher(store)
    with ServerProcess("serve", tmp_path / "serve.log", settings) as server:
        server.start()
        set_up(server.address)
        with watcher.watching(), clients.asking(lambda: server.address):
            for _ in range(KILLS):
                clients.wait_for(4)
                time.sleep(chance.uniform(0, 0.3))
                server.kill()
                server.start()
            until(lambda: is_enough(watcher.kinds()), "enough answers")
        server.kill()
        granted = [
            grant
            for grant, each in decisions(tmp_path / "ledger.db", tmp_path / "copy")
            if each["outcome"] in {"granted", "reserved"}
        ]
        server.start()
        until(
            lambda: is_finished(server.address, store, len(granted)),
            "each grant has an answer, and is settled",
        )
        watcher.look()
    check(decisions(tmp_path / "ledger.db", tmp_path / "copy"), watcher, tmp_path)


def check(log: list[tuple[str, dict[str, Any]]], watcher: Watcher, tmp_path: Path) -> None:
    assert watcher.reads > KILLS
    assert all(len(values) == 1 for values in watcher.seen.values()), "two answers of one grant"
    answers = {grant: decode_answer(*values) for grant, values in watcher.seen.items()}
    with connected(tmp_path / "ledger.db.answers") as db:
        query = "SELECT grant_hash FROM steps WHERE kind = 'attempt_3'"
        spent = {grant for (grant,) in db.execute(query)}
    kinds = Counter[str]()
    for grant, decision in log:
        if decision["outcome"] == "granted":
            # It is drawn again until it is stored, but not in a fourth life.
            given_up = answers[grant].outcome == "failed"
            assert given_up <= (grant in spent), answers[grant]
            kinds["given up" if given_up else "plain"] += 1
        elif decision["outcome"] == "reserved":
            kinds[check_session(grant, answers[grant], log)] += 1
    assert len(answers) == kinds.total()
    assert is_enough(kinds), kinds
    check_repeats(answers, log)


def is_enough(kinds: Counter[str]) -> bool:
    return min(kinds["plain"], kinds["answered"]) > KILLS


def check_repeats(answers: dict[str, NoisyAnswer], log: list[tuple[str, dict[str, Any]]]) -> None:
    """Check that a repeated request has the answer of its first decision."""
    by_request = {each.request_id: each.grant for each in answers.values()}
    repeats = [each for _, each in log if each["outcome"] == "repeated"]
    asked = [each for each in repeats if "question" in each["request"]]
    assert asked
    for each in asked:
        assert by_request[each["request"]["request_id"]] == each["first"]["hash"]
