"""The sync client's files are generated from the async client's."""

from __future__ import annotations

import importlib.util
import inspect
import subprocess
import threading
from pathlib import Path
from types import ModuleType

import pytest

from streams.client import (
    Accountant,
    AsyncAccountant,
    AsyncMechanismSession,
    AsyncOwner,
    MechanismSession,
    Owner,
)
from streams.client.connection.connection import AsyncConnection, Connection
from streams.replies.reply import Call

ROOT = Path(__file__).parents[3]
RENAMED = {"__aenter__": "__enter__", "__aexit__": "__exit__"}


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("unasync", ROOT / "scripts" / "unasync.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_sync_files_are_up_to_date() -> None:
    unasync = script()
    assert [source.stem for source in unasync.SOURCES] == [
        *("accountant", "ledger_reader", "owner", "questions", "sender", "session")
    ]
    for source in unasync.SOURCES:
        text = unasync.target_of(source).read_text("utf-8")
        assert text == unasync.generated(source), "run `make client`"
        assert text.startswith("# Generated from ")
        assert "async" not in text.partition("\n")[2].replace("asynchronous", "")


def test_the_sync_files_are_marked_as_generated() -> None:
    targets = [script().target_of(source) for source in script().SOURCES]
    command = ["git", "check-attr", "linguist-generated", *map(str, targets)]
    marks = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert marks.count(": set\n") == len(targets) > 0


def test_an_unused_rule_is_found() -> None:
    unasync = script()
    texts = "".join(source.read_text("utf-8") for source in unasync.SOURCES)
    for pattern, instead in unasync.RULES:
        before, texts = texts, unasync.re.sub(pattern, instead, texts)
        assert texts != before, pattern


def surface(kind: type) -> dict[str, tuple[list[str], str | None]]:
    """Return parameters and documentation of each public name, and of what a `with` calls."""
    found = {}
    every = [pair for base in kind.__mro__[-2::-1] for pair in vars(base).items()]
    for name, each in every:
        if name.startswith("_") and not name.startswith("__"):
            continue
        if isinstance(each, property):
            found[name] = (["property"], inspect.getdoc(each))
        elif inspect.isfunction(each):
            parameters = [str(p.replace(annotation=p.empty)) for p in _parameters(each)]
            found[RENAMED.get(name, name)] = (parameters, inspect.getdoc(each))
    return found


def _parameters(function: object) -> list[inspect.Parameter]:
    assert callable(function)
    return list(inspect.signature(function).parameters.values())


def test_both_clients_have_one_surface() -> None:
    ours, theirs = surface(Accountant), surface(AsyncAccountant)
    assert ours == theirs
    assert surface(MechanismSession).keys() == surface(AsyncMechanismSession).keys()
    assert {"ask", "grant", "release", "released", "as_owner", "events"} <= ours.keys()
    owners = surface(Owner)
    assert owners == surface(AsyncOwner)
    assert {"open", "amend", "close", "pause", "set_member", "set_limit"} <= owners.keys()


def test_both_connections_have_one_surface() -> None:
    ours, theirs = (
        {name: parameters for name, (parameters, _) in surface(kind).items() if name != "__init__"}
        for kind in (Connection, AsyncConnection)
    )
    # The other one is connected when it is made.
    assert theirs == {"connect": ["self"], **ours}


def test_an_invalid_call_raises_before_it_is_awaited() -> None:
    ledger = AsyncAccountant("sqlite:///none.db", analyst="ana")
    for call in ("ask", "cost", "grant"):
        with pytest.raises(Exception, match="wait"):
            getattr(ledger, call)("census", "pure:0.1", wait=-1)
    call = ledger.ask("census", "pure:0.1")
    assert isinstance(call, Call)
    call.close()


def test_a_decision_in_process_needs_no_event_loop(tmp_path: Path) -> None:
    def loops() -> int:
        return sum(thread.name == "ledger-client" for thread in threading.enumerate())

    before = loops()
    with Accountant(f"sqlite:///{tmp_path / 'ledger.db'}", analyst="ana") as ledger:
        ledger.as_owner("owner").open("census", {"filter": "basic", "epsilon": "1"})
        assert ledger.ask("census", "pure:0.1", unit="person", neighbours="add_remove").granted
        assert ledger.as_owner("owner").close("census").outcome == "closed"
        assert loops() == before
        ledger.datasets()
        assert loops() == before + 1
    assert loops() == before
