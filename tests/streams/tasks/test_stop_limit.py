"""A process that does not end by itself after a signal is ended."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

OPENS = ()
STARTS = ("streams.tasks.stop_limit",)
ROOT = Path(__file__).parents[3]

_HANGS = """
import threading
from streams.tasks.stop_limit import end_within
end_within(0.1)
threading.Thread(target=threading.Event().wait).start()  # the interpreter waits for it
"""
_ENDS = """
from streams.tasks.stop_limit import end_within
end_within()
"""


@pytest.mark.parametrize(("program", "code"), [(_HANGS, 1), (_ENDS, 0)], ids=["hangs", "ends"])
def test_a_process_ends_at_the_limit_at_the_latest(program: str, code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == code
    assert ("stop_cut" in done.stdout + done.stderr) is (code == 1)
