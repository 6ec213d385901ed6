"""Answers that cannot be trusted stop no decision, and what the note says brings them back."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from accountant.answers import decode_answer
from tests.nightly import rounds
from tests.streams.cli.here import run_here
from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import request
from tests.streams.gateway.test_answers import answering_server, granted, id_of, see
from tests.streams.waiting import eventually


def note_of(server: LocalServer) -> str:
    """Return the note of a server that decides."""
    body = server.http.get("/readyz").json()
    assert body["ready"], body
    notes = body.get("notes", [])
    assert len(notes) == 1, body
    return str(notes[0])


def does_all_but_answer(server: LocalServer, before: dict[str, Any]) -> dict[str, Any]:
    """Check that a server decides and shows no answer; return a question that it granted."""
    plain = request(server.clock, dataset="survey", analyst="ana")
    assert server.post("/requests", plain).json()["granted"]
    asked = granted(server, epsilon="0.1")
    for decision in (before, asked):
        response = see(server, id_of(decision), wait=0)
        assert response.status_code == 503
        assert response.json()["error"] == "unavailable"
        assert "`accountant ready`" in response.json()["message"]
        assert "ledger.db" not in response.text, "files are the operator's"
    assert server.metric("privacy_curator_running") == "0.0"
    return asked


def do_as_it_says(note: str, file: Path) -> None:
    """Run the command in a note, after moving away what it says to remove."""
    chmod = re.search(r"`chmod 600 (\S+)`", note)
    if chmod:
        Path(chmod[1]).chmod(0o600)
        return
    moved = re.search(r"(?:remove|move) (\S+) (?:away )?and run", note)
    if moved:
        Path(moved[1]).rename(file.with_name("away"))
    command = re.search(r"`accountant (accept-answers --url \S+)`: every question", note)
    assert command, note
    done = run_here(file.parent, *command[1].split())
    assert done.code == 0, done.err


def keep_an_older_copy(tmp_path: Path, file: Path, clock: TestClock) -> None:
    """Answer a question, and copy the store of answers."""
    with answering_server(tmp_path, file, clock) as server:
        assert see(server, id_of(granted(server))).status_code == 200
    shutil.copy(file.with_name(file.name + ".answers"), file.with_name("older"))


def put_back(store: Path) -> None:
    shutil.copy(store.with_name("older"), store.with_name("new"))
    _remove_sides(store)
    store.with_name("new").rename(store)


def damage_content(store: Path) -> None:
    _remove_sides(store)
    store.write_bytes(b"no database at all" * 1000)


def _remove_sides(store: Path) -> None:
    for end in ("-wal", "-shm"):
        store.with_name(store.name + end).unlink(missing_ok=True)


def make_a_directory(store: Path) -> None:
    _remove_sides(store)
    store.unlink()
    store.mkdir()


DAMAGES: list[Any] = [
    pytest.param(damage_content, "cannot be opened", id="no database"),
    pytest.param(put_back, "is an older copy", id="older copy"),
    pytest.param(
        lambda store: store.chmod(0o644), "accessible to other users", id="readable by others"
    ),
    pytest.param(make_a_directory, "is a directory", id="directory"),
]


@pytest.mark.parametrize(("damage", "words"), DAMAGES[: rounds(1, 4)])
def test_a_server_with_such_answers_starts_and_its_note_repairs_them(
    tmp_path: Path, file: Path, clock: TestClock, damage: Callable[[Path], None], words: str
) -> None:
    store = file.with_name(file.name + ".answers")
    if damage is put_back:
        keep_an_older_copy(tmp_path, file, clock)
    with answering_server(tmp_path, file, clock) as server:
        before = granted(server, epsilon="0.1")
        assert see(server, id_of(before)).status_code == 200
    damage(store)
    for _ in range(rounds(1, 2)):  # a start alone repairs nothing
        with answering_server(tmp_path, file, clock) as server:
            note = note_of(server)
            assert words in note
            assert note.endswith("Do that while the server is stopped, then start it again")
            waiting = does_all_but_answer(server, before)
    do_as_it_says(note, file)
    with answering_server(tmp_path, file, clock) as server:
        after = granted(server, epsilon="0.1")
        assert decode_answer(see(server, id_of(after)).content).outcome == "answered"
        # It may have been answered by the lost store: only a store that is complete runs it.
        outcome = decode_answer(see(server, id_of(waiting)).content).outcome
        assert outcome == ("answered" if "chmod" in note else "failed")
        assert "notes" not in server.http.get("/readyz").json()


def test_answers_that_are_replaced_while_it_runs_are_repaired_by_the_note(
    tmp_path: Path, file: Path, clock: TestClock
) -> None:
    store = file.with_name(file.name + ".answers")
    keep_an_older_copy(tmp_path, file, clock)
    with answering_server(tmp_path, file, clock) as server:
        before = granted(server, epsilon="0.1")
        assert see(server, id_of(before)).status_code == 200
        put_back(store)
        granted(server, epsilon="0.1")
        eventually(lambda: "notes" in server.http.get("/readyz").json())
        note = note_of(server)
        assert "Stop the server" in note
        assert note.index("Stop the server") < note.index("start the server again")
        plain = request(server.clock, dataset="survey", analyst="ana")
        assert server.post("/requests", plain).json()["granted"]
    with answering_server(tmp_path, file, clock) as server:
        does_all_but_answer(server, before)
    do_as_it_says(note, file)
    with answering_server(tmp_path, file, clock) as server:
        assert see(server, id_of(granted(server, epsilon="0.1"))).status_code == 200
