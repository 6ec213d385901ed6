"""Every command: its exit code is what was decided, whatever becomes of its output; and nothing
that others wrote acts on the screen."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from accountant.foreign_text import CONTROL
from accountant.records import inputs
from streams.cli.root import app
from streams.client import Accountant
from tests.every_case import every_case
from tests.examples_of_records import COMMANDS, GRANT
from tests.patience import PATIENCE_S
from tests.streams.cli.conftest import ROOT, Command, environment
from tests.streams.gateway.asking import SCHEMA

OPENS = ("streams/cli/**",)
STARTS = ("streams.cli",)

HOSTILE = "\x1b[2J\u202e\u2028\x7f é"
"""What no record holds, planted in a ledger by a writer that does not check."""
FORMULAS = ("=cmd|' /C calc'!A0", "+1+1", "-1+1", "@SUM(A1)", "\t=1+1", " =1+1", 'a,"b";=1')
OPENING = ("--epsilon", "1", "--delta", "1e-6")
RUNS: dict[str, tuple[str, ...]] = {
    **{name: example.line(new="survey", text=HOSTILE) for name, example in COMMANDS.items()},
    "login": (f"foo://{HOSTILE}",),
    "logout": ("--all",),
    "me": (),
    "mine": ("--analyst", "ana"),
    "ask": ("census", "approximate_zcdp:1e-6,1e-9", "--analyst", "ana"),
    "ask-many": ("members.csv",),
    "answers": ("census",),
    "usage": ("census", "--by", "purpose"),
    "why": ("census",),
    "report": ("census", "--by", "purpose"),
    "watch": ("--once",),
    "audit": (),
    "head": (),
    "fits": ("--claim", "pure:0.01", *OPENING),
    "plan": ("10", "--sensitivity", "1", *OPENING),
    "compare": ("--policy", "policy.json"),
    "id": (),
    "decide": ("--policy", "policy.json"),
    "demo": ("--url", f"foo://{HOSTILE}"),
    "serve": ("--url", f"foo://{HOSTILE}"),
    "gateway": ("--url", f"foo://{HOSTILE}"),
    "worker": ("--url", f"foo://{HOSTILE}"),
    "curator": ("--url", f"foo://{HOSTILE}"),
    "ready": ("--url", f"foo://{HOSTILE}"),
    "accept-answers": (),
    "accept-rollback": ("--lost", "1-2", "--reason", HOSTILE),
    "evidence": ("folder",),
    "dataset show": ("census",),
    "dataset columns": (HOSTILE,),
    "dataset list": (),
    "dataset releases": ("census",),
    "approval list": ("census",),
    "member list": ("census",),
    "more accept": ("census", "1"),
    "more list": ("census",),
    "member sync": ("census", "members.csv"),
    "limit list": ("census",),
    "question list": ("--url", f"foo://{HOSTILE}"),
    "question end": ("census", "--url", f"foo://{HOSTILE}"),
    "reservation list": ("census",),
    "reservation settle": ("census", GRANT, "--analyst", "ana", "--shown", HOSTILE),
    "reservation void": ("census", HOSTILE, "--analyst", "ana"),
    "log archive": ("old.jsonl.gz", "--before", "2026-01-01", "--reason", "old"),
    "log export": ("--id", "01a1fd8c-6900-7000-8000-000000000000"),
    "log restore": ("members.csv", "--url", f"foo://{HOSTILE}"),
    "topics create": ("--url", f"foo://{HOSTILE}"),
    "topics check": ("--url", f"foo://{HOSTILE}"),
    "topics acls": ("--url", f"foo://{HOSTILE}"),
    "topics accept-lost-inputs": (
        *("--url", f"foo://{HOSTILE}", "--topic", "requests", "--partition", "0"),
        *("--first", "1", "--reason", HOSTILE),
    ),
    "key create": ("new.key",),
    "key show": (HOSTILE,),
    "key rotate": (HOSTILE, "--reason", HOSTILE),
    "token create": ("ana", "--file", "tokens.json"),
    "token list": ("--file", "tokens.json"),
    "token revoke": (HOSTILE, "--file", "tokens.json"),
    "clock reset": ("--reason", HOSTILE),
    "source check": ("schema.json", "--data-sources", "sources.json"),
    "source confirm": ("people", "--data-sources", "sources.json"),
    "source schema": ("hostile.csv",),
}
MORE = [
    ("usage", "census", "--by", "purpose", "--json"),
    ("why", "census", "--by", "grants"),
    ("why", "census", "--json"),
    ("dataset", "list", "--json"),
    ("ask", "census", "pure:0.01", "--analyst", "ana", "--json"),
    ("ask", "census", "pure:100", "--analyst", "ana"),
    ("ask", "census", "pure:0.01", "--analyst", "ana", "--dry-run"),
    ("ask", "census", "pure:0.01", "--analyst", HOSTILE),
    ("ask", "census", HOSTILE, "--analyst", "ana"),
    ("ask", HOSTILE),
    (HOSTILE,),
    (f"--{HOSTILE}",),
    ("audit", HOSTILE),
    ("dataset", "show", HOSTILE),
    ("dataset", "open", "survey", "--epsilon", HOSTILE),
    ("log", "export", "--id", HOSTILE),
    ("log", "export", "--dataset", HOSTILE),
    ("log", "export", "--since", HOSTILE),
    ("source", "check", "schema.json", "--data-sources", "sources.json"),
    ("source", "confirm", "people", "--data-sources", "sources.json", "--json"),
    ("source", "schema", "hostile.csv"),
]


def commands() -> list[str]:
    def walk(command: Any, path: tuple[str, ...]) -> Iterator[str]:
        inner = getattr(command, "commands", None)
        if inner is None:
            yield " ".join(path)
        for name, each in (inner or {}).items():
            yield from walk(each, (*path, name))

    return list(walk(typer.main.get_command(app), ()))


@pytest.fixture(scope="session")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a ledger in which purposes are hostile, and files beside it."""
    directory = tmp_path_factory.mktemp("hostile")
    accountant = Command(directory)
    assert accountant("dataset", "open", "census", *OPENING, "--by", "owner").code == 0
    kept, inputs.may_break_text_rule = inputs.may_break_text_rule, lambda _body: False
    try:
        with Accountant(f"sqlite:///{directory}/accountant.db") as ledger:
            for purpose in (HOSTILE, *FORMULAS):
                assert ledger.ask("census", "pure:0.001", analyst="ana", purpose=purpose).granted
    finally:
        inputs.may_break_text_rule = kept
    (directory / "policy.json").write_text('{"epsilon": "1", "delta": "1e-6"}')
    (directory / "members.csv").write_text(f"member,roles\nowner,owner\n{HOSTILE},analyst\n")
    (directory / "tokens.json").write_text("[]")
    header = f"age,{HOSTILE}".replace("\n", "")
    (directory / "hostile.csv").write_text(f"{header}\n1,{HOSTILE}\n", "utf-8")
    sources = {"people": {"kind": "csv", "path": "hostile.csv"}}
    (directory / "sources.json").write_text(json.dumps(sources))
    (directory / "schema.json").write_text(json.dumps(SCHEMA))
    return directory


@pytest.fixture
def run(furnished: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Run a command in a copy of that directory."""

    def in_a_copy(*arguments: str, **more: Any) -> Any:
        directory = tmp_path_factory.mktemp("copy")
        shutil.copytree(furnished, directory, dirs_exist_ok=True)
        # Copies of one ledger that share a directory of checkpoints halt each other.
        more.setdefault("ACCOUNTANT_CHECKPOINTS", str(directory / "checkpoints"))
        return Command(directory)(*arguments, **more)

    return in_a_copy


def test_every_command_is_tried() -> None:
    assert set(commands()) == RUNS.keys()


LINES = b'{"type": "request", "purpose": "\\u001b[2J"}\n\x1b[2J\n' + HOSTILE.encode() + b"\n"


def test_no_command_prints_past_the_functions_that_escape() -> None:
    printing = ROOT / "streams" / "cli" / "printing"
    ours = {printing / f"{name}.py" for name in ("say", "output", "safe_streams")}
    past = re.compile(
        r"typer\.(secho|echo)|\bprint\(|sys\.(stdout|stderr)|\bConsole\(|csv\.\w*riter"
    )
    for file in set((ROOT / "streams" / "cli").rglob("*.py")) - ours:
        found = [line for line in file.read_text().splitlines() if past.search(line)]
        left = [line for line in found if not re.search(r"\.print\(|def print", line)]
        assert not left, (file, left)


@every_case("arguments", MORE)
def test_text_written_by_others_is_escaped_in_every_output(
    run: Any, arguments: tuple[str, ...]
) -> None:
    assert_plain(run(*arguments, stdin=LINES))


def assert_plain(done: Any) -> None:
    for text in (done.out, done.err):
        assert CONTROL.search(text.replace("\n", "")) is None, text


@pytest.mark.parametrize("name", RUNS)
def test_the_exit_code_does_not_depend_on_the_output_pipe(run: Any, name: str) -> None:
    arguments = (*name.split(), *RUNS[name])
    normal = run(*arguments, stdin=LINES)
    assert_plain(normal)
    ascii_only = run(*arguments, stdin=LINES, PYTHONIOENCODING="ascii")
    assert (ascii_only.code, ascii_only.err.isascii()) == (normal.code, True)
    assert ascii_only.out.isascii()
    assert len(ascii_only.out.splitlines()) >= len(normal.out.splitlines()) - 1
    unread = run(*arguments, stdin=LINES, out="|")
    assert unread.code == normal.code, unread.err
    full = run(*arguments, stdin=LINES, out="/dev/full")
    if name in {"decide", "ask-many"}:  # the output is all there is of the decisions
        assert (full.code, normal.out != "") == (4, True)
    else:
        assert full.code == normal.code, full.err
    said = "error: the output cannot be written: No space left on device"
    assert (said in full.err) is bool(normal.out)


def test_a_part_of_a_log_is_no_export(run: Any) -> None:
    assert run("log", "export").code == 0
    full = run("log", "export", out="/dev/full")
    assert full.code == 4
    assert "the output cannot be written: No space left on device" in full.err
    # Who goes away has read all that was wanted.
    assert run("log", "export", out="|").code == 0


@pytest.mark.parametrize(
    "arguments", [("usage", "census", "--by", "purpose"), ("why", "census", "--by", "purpose")]
)
def test_no_cell_of_csv_is_a_formula(run: Any, arguments: tuple[str, ...]) -> None:
    done = run(*arguments, "--csv")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    shown = {row["purpose"] for row in rows}
    assert len(shown) == len(FORMULAS) + 1
    assert not any(cell.lstrip()[:1] in tuple("=+-@\t\r") for cell in shown)
    assert "'=cmd|' /C calc'!A0" in shown
    assert CONTROL.search(done.out.replace("\n", "")) is None
    assert all(float(row["spent"]) > 0 and row["granted"] == "1" for row in rows)
    # Nor does one begin where a spreadsheet separates cells by semicolons.
    assert '"a,""b"";\'=1"' in done.out


def test_json_says_the_same_with_escapes_and_letters_stay(run: Any) -> None:
    done = run("usage", "census", "--by", "purpose", "--json", PYTHONIOENCODING="ascii")
    assert {row["purpose"] for row in done.rows} == {HOSTILE, *FORMULAS}


@pytest.mark.parametrize(
    ("closed", "reported"),
    [(">&-", "cannot be written"), ("2>&-", ""), ("<&-", ""), (">&- 2>&-", "")],
)
def test_a_closed_stream_changes_no_exit_code(
    run: Any, opened: Command, closed: str, reported: str
):
    # In a new interpreter: a fork has all of them.
    command = [sys.executable, "-m", "streams.cli", "ask", "census", "pure:0.01"]
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *command, "--analyst", "ana"],
        cwd=opened.directory,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert reported in done.stderr
    assert "Traceback" not in done.stderr
    exported = opened("log", "export").rows
    assert [row["outcome"] for row in exported].count("granted") == 1
    if reported:
        assert f"request {json.loads(json.dumps(exported[-1]))['request']['request_id']}" in (
            done.stderr
        )


def test_a_slow_reader_on_a_pipe_that_does_not_block_gets_all(opened: Command) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    command = [sys.executable, "-m", "streams.cli", "decide"]
    lines = b"{}\n" * 2_000
    process = subprocess.Popen(
        command,
        cwd=opened.directory,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=writer,
        stderr=subprocess.DEVNULL,
    )
    os.close(writer)
    assert process.stdin is not None
    process.stdin.write(lines)
    process.stdin.close()
    with os.fdopen(reader, "rb") as out:
        assert len(out.read().splitlines()) == 2_001
    process.wait(PATIENCE_S)


def test_version_and_help(accountant: Command) -> None:
    assert accountant("--version").out.startswith("accountant ")
    text = accountant("--help").out
    for name in ("ask", "audit", "dataset", "decide", "demo", "fits", "gateway", "log", "serve"):
        assert f" {name} " in text
    assert accountant("magic").code == 2
