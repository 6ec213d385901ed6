"""Threads and processes of one user share the result store."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from streams.client.releases.store import ResultStore

OPENS = ()
STARTS = ()
_TAKE = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
db.execute("BEGIN IMMEDIATE")
"""


def test_a_thread_that_waits_for_the_store_drops_no_lock_of_another(tmp_path: Path) -> None:
    """A close of any descriptor of a file drops the locks that the process holds on it."""
    store = ResultStore(tmp_path / "answers.db")
    with store.transaction():
        waits = threading.Thread(target=store.open_requests)
        waits.start()
        command = [sys.executable, "-c", _TAKE, str(store.path)]
        other = subprocess.run(command, check=False, capture_output=True, text=True)
        assert "database is locked" in other.stderr
    waits.join()
    assert store.open_requests() == []
