"""GET /head and the gauge beside it: the end of the log, for whoever keeps it elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

from accountant.partition import hash_of
from streams.embedded.ledger_file import read_decisions
from streams.evidence.keys import SigningKey
from streams.evidence.signed_checkpoint import open_signed
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer


def test_head_returns_the_end_of_the_log(server: LocalServer, file: Path) -> None:
    for _ in range(2):
        server.ask(claim={"type": "pure", "epsilon": "0.01"})
        values = list(read_decisions(file))
        (head,) = server.http.get("/head").json()
        assert (head["partition"], head["branch"]) == (0, 0)
        assert (head["partition_sequence"], head["head"]) == (len(values) - 1, hash_of(values[-1]))


def test_the_head_metrics_match_the_last_decision_of_the_log(
    server: LocalServer, file: Path
) -> None:
    for _ in range(3):
        server.ask(claim={"type": "pure", "epsilon": "0.01"})
        text = server.http.get("/metrics").text
        number, bits = (
            float(re.findall(rf"^privacy_partition_{name}{{.*}} (.+)$", text, re.MULTILINE)[0])
            for name in ("sequence", "head")
        )
        digest = hash_of(list(read_decisions(file))[int(number)]).removeprefix("sha256:")
        assert int(bits) == int(digest, 16) >> (256 - 52)


def test_head_contains_the_newest_signed_checkpoint(
    file: Path, clock: TestClock, tmp_path: Path, monkeypatch
) -> None:
    directory = tmp_path / "kept"
    monkeypatch.setenv("ACCOUNTANT_CHECKPOINTS", str(directory))
    monkeypatch.setenv("ACCOUNTANT_CHECKPOINT_SECONDS", "0.1")
    with LocalServer(file, clock) as server:
        server.open("census")
        note = None
        while note is None:
            (head,) = server.http.get("/head").json()
            note = head.get("note")
        checkpoint = open_signed(note.encode(), [SigningKey.load(directory / "key").verifier])
    value = list(read_decisions(file))[checkpoint.sequence]
    assert (checkpoint.ledger, checkpoint.head) == (head["ledger"], hash_of(value))
