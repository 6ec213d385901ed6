"""A fork of the fork server behaves as `accountant` in a new interpreter."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from tests.durations.other_processes import seconds_elsewhere
from tests.forks import commands
from tests.patience import PATIENCE_S

STARTS = ("streams.cli",)

Started = Callable[..., subprocess.Popen[Any]]

_NEW: Final = (sys.executable, "-m", "streams.cli")
_ROOT: Final = Path(__file__).parents[2]


def in_a_new_interpreter(*words: str, **options: Any) -> subprocess.Popen[Any]:
    return subprocess.Popen([*_NEW, *words], **options)


@pytest.fixture(params=["fork", "new"])
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Started:
    """Start a command in an empty directory, as a fork or in a new interpreter."""

    def started(*words: str, **more: Any) -> subprocess.Popen[Any]:
        mine = {k: v for k, v in os.environ.items() if not k.startswith("ACCOUNTANT_")}
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        env = {**mine, "PYTHONPATH": str(_ROOT), "COLUMNS": "80", **more}
        begin = commands.start if request.param == "fork" else in_a_new_interpreter
        return begin(*words, cwd=tmp_path, env=env, **pipes)

    return started


def test_output_and_exit_code_are_those_of_the_command(start: Started, tmp_path: Path) -> None:
    def ended(*words: str, **more: str) -> tuple[int, bytes, bytes]:
        with start(*words, **more) as process:
            return (process.wait(), *process.communicate())

    url = "sqlite:///a.db"
    refused = (
        b"error: no such ledger: a.db. Check the path, or open a dataset to create the ledger\n"
    )
    assert ended("dataset", "list", "--url", url) == (4, b"", refused)
    assert ended("dataset", "list", ACCOUNTANT_URL=url) == (4, b"", refused)
    code, out, error = ended("no-such-command", PYTHONIOENCODING="ascii")
    assert (code, out) == (2, b"")
    assert error.startswith(b"Usage: ")
    assert error.isascii()
    assert ended("worker", ACCOUNTANT_URL=url)[:2] == (2, b"")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("start", "number"),
    [
        ("fork", signal.SIGINT),
        ("fork", signal.SIGTERM),
        ("fork", signal.SIGKILL),
        ("new", signal.SIGINT),
    ],
    indirect=["start"],
)
def test_a_server_listens_and_ends_by_a_signal(
    start: Started, number: signal.Signals, tmp_path: Path
) -> None:
    more = {"ACCOUNTANT_URL": "sqlite:///a.db", "ACCOUNTANT_CHECKPOINTS": "off"}
    with start("serve", "--port", "0", **more) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"listening at ")
        assert process.poll() is None
        process.send_signal(number)
        assert process.wait() == (-9 if number == signal.SIGKILL else 0)
        assert process.poll() == process.returncode
    assert (tmp_path / "a.db").exists()


def test_a_shell_finds_the_command_and_passes_on_its_streams_and_signals(tmp_path: Path) -> None:
    def typed(text: str) -> tuple[int, str]:
        done = subprocess.run(
            ["bash", "-c", text],
            cwd=tmp_path,
            env={**os.environ, "PATH": commands.path_of_shell(), "ACCOUNTANT_CHECKPOINTS": "off"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return done.returncode, done.stdout

    assert typed("accountant no-such-command 2> /dev/null") == (2, "")
    code, out = typed("umask 077; accountant key create key --name example.org | cat; ls -l key")
    assert code == 0
    assert "example.org+" in out
    assert "-rw-------" in out
    # The first `out` is removed: else the loop may read it before the second command replaces it.
    serve = "rm -f out; accountant serve --port 0 > out 2> log & "
    serve += "while ! grep -qs listening out; do sleep 0.05;"
    assert typed(f"{serve} done; kill -INT $!; wait $!; echo ended: $?") == (0, "ended: 0\n")
    assert typed(f"{serve} done; kill $!; wait $!; echo ended: $?") == (0, "ended: 0\n")


@pytest.mark.skipif(not commands.FORKS, reason="by night there are no forks")
def test_the_seconds_of_a_fork_are_counted() -> None:
    before = seconds_elsewhere()
    with commands.start("--version", stdout=subprocess.DEVNULL) as process:
        process.wait()
    assert seconds_elsewhere() > before


def test_a_paused_fork_does_not_answer(tmp_path: Path) -> None:
    """All of its threads are stopped, and it goes on."""
    env = {**os.environ, "ACCOUNTANT_URL": "sqlite:///a.db", "ACCOUNTANT_CHECKPOINTS": "off"}
    with commands.start(
        "serve", "--port", "0", cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        commands.pause(process)
        tasks = list(Path(f"/proc/{process.pid}/task").iterdir())
        states = {(task / "stat").read_text().rpartition(") ")[2][0] for task in tasks}
        assert (len(tasks) > 1, states) == (True, {"T"})
        process.send_signal(signal.SIGCONT)
        assert httpx.get(f"{address}/healthz", timeout=PATIENCE_S).status_code == 200
        process.terminate()
        assert process.wait(PATIENCE_S) == 0


def test_an_order_that_cannot_be_sent_leaves_the_server_free(tmp_path: Path) -> None:
    class Word(str):
        """A text that is not encoded as one."""

    with pytest.raises(ValueError, match="unmarshallable") as error:
        commands.start(Word("id"), cwd=tmp_path)
    with commands.start("id", cwd=tmp_path, stdout=subprocess.PIPE) as process:
        assert process.wait(PATIENCE_S) == 0, error
