"""Every command that writes to a log compares it with its checkpoints first, as a start does."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from streams.cli.root import command
from streams.embedded.ledger_file import read_decisions
from tests.every_case import every_case
from tests.examples_of_records import COMMANDS
from tests.streams.cli.conftest import Command
from tests.streams.cli.test_accept_rollback import PLACE, lost

__all__ = ["lost"]

ID: Final = "20261130T000000.000Z-00000000000000000000000000000000"
WHY: Final = ("--reason", "x")

WRITING: Final = {
    **{name: example.line(grant=ID) for name, example in COMMANDS.items()},
    "accept-answers": (),
    "ask-many": ("requests.jsonl",),
    "clock reset": WHY,
    "key rotate": ("next", "--old", f"{PLACE}/key", *WHY),
    "log archive": ("archive.gz", "--before", "PT1H", *WHY),
    "member sync": ("census", "members.csv", *WHY),
    "more accept": ("census", "1"),
    "reservation settle": ("census", ID, "--shown", "0"),
    "serve": ("--port", "0"),
}
"""Commands that write to the log of a ledger in a file, or beside it; with sound arguments."""

ACCEPTS: Final = {"accept-rollback"}
"""The command that ends the loss: it refuses other decisions than the comparison finds."""

ON_KAFKA: Final = {
    "curator",  # writes answers and settlements as a client; workers decide
    "gateway",  # likewise appends requests
    "log restore",  # writes the log whose end a worker compares before it decides anything
    "topics accept-lost-inputs",  # tests/kafka/test_checkpoint_store.py
    "topics acls",
    "topics check",
    "topics create",  # begins a log, which a worker refuses if another one had its name
    "worker",  # tests/kafka/test_checkpoint_store.py
}

NOT_THE_LOG: Final = {
    "question end",  # asks the process that reads data
    "question list",
}

READING: Final = {
    *("answers", "approval list", "audit", "dataset list", "dataset show", "evidence", "head"),
    *("dataset columns", "dataset releases", "limit list", "log export", "more list"),
    *("me", "member list", "mine", "ready", "report", "reservation list"),
    *("usage", "watch", "why"),
}

WITHOUT_A_LEDGER: Final = {
    *("compare", "decide", "demo", "fits", "id", "key create", "key show", "login", "logout"),
    *("plan", "source check", "source confirm", "source schema"),
    *("token create", "token list", "token revoke"),
}


def commands(group: Any, names: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the name of each command, with its group."""
    for name, each in group.commands.items():
        if hasattr(each, "commands"):
            yield from commands(each, (*names, name))
        else:
            yield " ".join((*names, name))


def test_each_command_is_known_to_write_or_not_to() -> None:
    listed = [*WRITING, *ACCEPTS, *ON_KAFKA, *NOT_THE_LOG, *READING, *WITHOUT_A_LEDGER]
    assert sorted(listed) == sorted(commands(command()))


@pytest.fixture
def directory(lost: Any, tmp_path: Path, opened: Command) -> Path:
    """The directory of a ledger that an older copy has replaced, and files for the commands."""
    (tmp_path / "members.csv").write_text("member,roles\nana,analyst\nolga,owner\n")
    (tmp_path / "requests.jsonl").write_text('{"claim": "pure:0.001", "dataset": "census"}\n')
    assert opened("key", "create", "next").code == 0
    return tmp_path


def test_no_command_writes_to_a_log_that_has_lost_decisions(lost: Any, directory: Path) -> None:
    before = [*read_decisions(directory / "accountant.db")]
    wrong = []
    for name, arguments in WRITING.items():
        done = lost(*name.split(), *arguments)
        after = [*read_decisions(directory / "accountant.db")]
        refused = "the log ends at decision 3, but decision 5 was there at" in done.err
        if done.code != 4 or not refused or after != before:
            wrong.append(
                f"{name}: exit {done.code}, {len(after)} decisions: {done.err or done.out}"
            )
    assert not wrong, "\n".join(wrong)
    assert not (directory / "archive.gz").exists()
    accepted = lost("accept-rollback", "--lost", "4-5", "--reason", "x")
    assert accepted.code == 0, accepted.err  # with the first decision that the log has lost


STOPPED: Final = ("clock reset", "key rotate", "log archive")


@every_case("name", STOPPED)
def test_a_command_refuses_uncompared_checkpoints_if_they_are_required(
    lost: Any, opened: Command, directory: Path, name: str
) -> None:
    (directory / "blocked").write_text("no directory")
    arguments = ["next", "--old", "key", *WHY] if name == "key rotate" else [*WRITING[name]]
    if not (directory / "key").exists():
        assert opened("key", "create", "key").code == 0
    where = {"ACCOUNTANT_CHECKPOINTS": str(directory / "blocked")}
    required = opened(*name.split(), *arguments, **where, ACCOUNTANT_CHECKPOINTS_REQUIRED="true")
    assert required.code == 4, required.err
    assert "because ACCOUNTANT_CHECKPOINTS_REQUIRED is set" in required.err
    warned = opened(*name.split(), *arguments, **where)
    assert "warning: checkpoints cannot be stored in" in warned.err


def test_a_command_refuses_another_ledgers_log(lost: Any, opened: Command, directory: Path) -> None:
    url = ("--url", "sqlite:///other.db")
    policy = ("--epsilon", "1", "--filter", "basic")
    assert lost("dataset", "open", "x", *policy, *url).code == 0
    shutil.copy(directory / "other.db", directory / "accountant.db")
    for name in (*STOPPED, "accept-rollback"):
        given = ("--lost", "4-5", *WHY) if name == "accept-rollback" else WRITING[name]
        done = lost(*name.split(), *given)
        assert done.code == 4, (name, done.err)
        assert "another ledger's log was put in its place" in done.err


CREATING: Final = {
    "dataset open": ("other", "--epsilon", "1", "--filter", "basic"),
    "demo": ("--file", "accountant.db", "--requests", "1"),
    "serve": ("--port", "0"),
}
"""Commands that create a ledger's file."""


def test_a_lost_ledger_is_replaced_only_by_an_option(accountant: Command, tmp_path: Path) -> None:
    asked = [name for name in commands(command()) if "--replace-ledger" in options_of(name)]
    assert sorted(asked) == sorted(CREATING)
    policy = CREATING["dataset open"]
    assert accountant("dataset", "open", *policy).code == 0
    for name, arguments in CREATING.items():
        for file in tmp_path.glob("accountant.db*"):
            file.unlink()
        refused = accountant(*name.split(), *arguments)
        assert refused.code == 4, (name, refused.err)
        assert "is missing, and ledger" in refused.err
        assert not (tmp_path / "accountant.db").exists()
        replacing = (*name.split(), *arguments, "--replace-ledger")
        if name == "serve":
            process = accountant.start(*replacing)
            assert process.stdout is not None
            assert "listening at" in process.stdout.readline()
            process.terminate()
            process.communicate()
        else:
            done = accountant(*replacing)
            assert done.code == 0, (name, done.err)
        assert (tmp_path / "accountant.db").exists()


def options_of(name: str) -> set[str]:
    """Return the options of a command."""
    found: Any = command()
    for part in name.split():
        found = found.commands[part]
    return {option for each in found.params for option in each.opts}
