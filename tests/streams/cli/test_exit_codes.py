"""One table of exit codes: the same fault ends every command with the same code."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from streams.cli.printing.exit_codes import Exit
from streams.cli.root import command
from tests.streams.cli import test_reading_commands as reading
from tests.streams.cli.conftest import Command, Done
from tests.streams.cli.test_typed_names import commands
from tests.streams.cli.test_writing_commands import WHY, WRITING

ON_KAFKA: Final = {
    *("curator", "gateway", "worker", "log restore"),
    *("topics accept-lost-inputs", "topics acls", "topics check", "topics create"),
}
OF_A_SERVER: Final = {"login", "logout", "question end", "question list", "ready"}
"""Commands that need a running server, whose address is another one than a ledger's."""
ENDLESS: Final = {"demo", "watch"}
CREATES: Final = {"dataset open", "serve"}
NEW: Final = "01a1fd8c-6900-7d4c-8e1f-5f3c2b1a0da0"
GRANT: Final = "sha256:" + "a" * 64
OF_THE_LOG: Final = {
    *("accept-answers", "accept-rollback", "audit", "clock reset", "evidence", "key rotate"),
    *("log archive", "log export", "serve"),
}
"""Commands that use the log itself, and refuse a server's address."""
ARGUMENTS: Final = {
    **WRITING,
    **reading.ARGUMENTS,
    "accept-rollback": ("--lost", "4-5", *WHY),
    "answers": ("census",),
    "approval approve": ("census", GRANT),
    "approval deny": ("census", GRANT),
    "dataset columns": ("census",),
    "dataset resolve": ("census", GRANT, "--mistaken", "x"),
    "fits": ("--claim", "pure:0.1", "--dataset", "census"),
    "me": (),
    "plan": ("--error", "10", "--confidence", "0.95", "--sensitivity", "1", "--dataset", "census"),
    "reservation begin": ("census", GRANT, "--analyst", "ana"),
    "reservation settle": ("census", GRANT, "--shown", "0.1", "--analyst", "ana"),
    "reservation void": ("census", GRANT, "--analyst", "ana"),
}
CODES: Final = {
    "no file is at the address": Exit.OPERATOR,
    "the file is no ledger": Exit.OPERATOR,
    "a directory is at the address": Exit.OPERATOR,
    "no server answers": Exit.UNAVAILABLE,
    "the address is of no kind": Exit.USAGE,
    "a setting breaks its rule": Exit.USAGE,
    "no dataset has the name": Exit.FAILED,
    "the id is none": Exit.USAGE,
}
"""The exit code of each fault, for all commands."""


class Fault(NamedTuple):
    """How a fault is made.

    Attributes:
        options: of the command line. `variables`: of the environment.
        without: the commands that it does not concern.
        dataset: the name in place of `census`, "" to leave it.
    """

    options: tuple[str, ...] = ()
    variables: dict[str, str] = {}  # noqa: RUF012 - nobody changes it
    without: frozenset[str] | set[str] = frozenset()
    dataset: str = ""


def names(having: Callable[[set[str]], bool]) -> set[str]:
    """Return the commands whose parameters have some property."""
    every = commands(command())
    return {name for name, each in every if having({str(p.name) for p in each.params})}


TAKE_A_LEDGER: Final = names(lambda found: "url" in found) - ON_KAFKA - OF_A_SERVER - ENDLESS


@pytest.fixture
def closed_port() -> Iterator[int]:
    with socket.socket() as held:  # bound, and nothing listens
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])


def faults(directory: Path, closed_port: int) -> dict[str, Fault]:
    (directory / "text.db").write_text("a text, and no ledger\n" * 99)
    (directory / "folder").mkdir()
    # The log also has what was asked under ids that are none.
    no_id = names(lambda found: "request_id" not in found) | {"answers", "log export"}
    no_name = names(lambda found: not found & {"dataset", "name"}) | {"evidence", "log export"}
    return {
        "no file is at the address": Fault(("--url", "sqlite:///nowhere.db"), without=CREATES),
        "the file is no ledger": Fault(("--url", "sqlite:///text.db")),
        "a directory is at the address": Fault(("--url", "sqlite:///folder")),
        "no server answers": Fault(
            ("--url", f"http://127.0.0.1:{closed_port}"), without=OF_THE_LOG
        ),
        "the address is of no kind": Fault(("--url", "ftp://x")),
        "a setting breaks its rule": Fault(
            variables={"ACCOUNTANT_TOKEN_UNENCRYPTED": "maybe"},
            without={"audit", "head", "log export"},  # they read a file, and send no token
        ),
        "no dataset has the name": Fault(
            dataset="nowhere", without=no_name | CREATES | {"reservation begin"}
        ),
        "the id is none": Fault(("--id", "x"), without=no_id),
    }


@pytest.fixture
def ledger(opened: Command, tmp_path: Path) -> Command:
    (tmp_path / "members.csv").write_text("member,roles\nana,analyst\nowner,owner\n")
    asked = f'{{"claim": "pure:0.01", "dataset": "census", "analyst": "a", "request_id": "{NEW}"}}'
    (tmp_path / "requests.jsonl").write_text(f"{asked}\n")
    for key in ("key", "next"):
        assert opened("key", "create", key).code == 0
    return opened


def run(ledger: Command, name: str, fault: Fault) -> Done:
    words = list[str](ARGUMENTS[name])
    if fault.dataset:
        words = [fault.dataset if each == "census" else each for each in words]
    options = {str(p.name) for n, e in commands(command()) if n == name for p in e.params}
    wait = ("--wait", "0.1") if "wait" in options else ()
    return ledger(*name.split(), *words, *fault.options, *wait, **fault.variables)


def test_a_fault_ends_every_command_with_its_code(
    ledger: Command, tmp_path: Path, closed_port: int
) -> None:
    made = faults(tmp_path, closed_port)
    assert made.keys() == CODES.keys()
    wrong, count = list[str](), 0
    for kind, fault in made.items():
        for name in sorted(TAKE_A_LEDGER - fault.without):
            done = run(ledger, name, fault)
            count += 1
            if done.code != CODES[kind]:
                said = (done.err or done.out).strip().replace("\n", " ")[:200]
                wrong.append(f"{kind}: {name} ends with {done.code}: {said}")
    assert not wrong, "\n".join(wrong)
    assert count > 200


def test_each_command_is_in_the_table() -> None:
    every: set[Any] = names(lambda found: "url" in found)
    assert every == TAKE_A_LEDGER | ON_KAFKA | OF_A_SERVER | ENDLESS
    assert ARGUMENTS.keys() >= TAKE_A_LEDGER
