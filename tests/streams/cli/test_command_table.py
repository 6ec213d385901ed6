from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from streams.cli.command_table import TABLE
from streams.cli.root import command

STARTS = ()

DEAR = {
    *("aiokafka", "asyncio", "cryptography", "duckdb", "faust", "httpx", "litestar", "msgspec"),
    *("numpy", "opendp", "prometheus_client", "pydantic", "rich", "scipy", "structlog"),
}
"""What some commands need: each takes longer to import than the root's own modules together."""


def test_the_root_imports_no_dear_library_and_no_command() -> None:
    code = "import sys; import streams.cli.root as r; r.command(); print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert not DEAR.intersection(loaded)
    commands = {f"streams.cli.{each.place.rpartition('.')[0]}" for each in TABLE.values()}
    assert not commands.intersection(loaded)


def test_a_client_of_a_file_imports_no_library_of_servers_and_of_people(tmp_path: Path) -> None:
    code = (
        "import sys; from streams.client import Accountant\n"
        "with Accountant('sqlite:///ledger.db') as ledger:\n"
        "    ledger.as_owner('owner').open('census', {'filter': 'basic', 'epsilon': '1'})\n"
        "print(*sorted(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    needed = {"asyncio", "cryptography", "msgspec", "pydantic"}
    assert DEAR.intersection(done.stdout.split()) <= needed


def test_the_table_says_of_each_command_what_its_own_help_says_first() -> None:
    for name, entry in TABLE.items():
        chosen = command().commands[name]
        assert entry.line == chosen.help.split("\n\n")[0].replace("\n", " "), name
        assert (chosen.name, chosen.rich_help_panel) == (name, entry.panel)
        assert chosen.short_help is None, name
        assert not chosen.hidden, name
        assert not chosen.deprecated, name


def test_the_help_names_what_each_value_is_and_no_type() -> None:
    words: dict[str, list[str]] = {}

    def check(name: str, each: Any) -> None:
        for child, inner in getattr(each, "commands", {}).items():
            check(f"{name} {child}", inner)
        for parameter in each.params:
            shown = str(parameter.make_metavar(ctx=None))
            if not getattr(parameter, "is_flag", False):
                words.setdefault(str(parameter.name), []).append(shown)
                assert hasattr(parameter.type, "choices") or "<" not in shown, (name, shown)
            if parameter.param_type_name == "argument":
                assert parameter.type.get_metavar(param=parameter, ctx=None) == "", name

    for name in TABLE:
        check(name, command().commands[name])
    assert {*words["analyst"]} == {"NAME"}
    assert {*words["until"]} == {"DATE"}
    assert {*words["token_file"]} == {"FILE"}
    assert {*words["lost"]} == {"FIRST-LAST", "KEY"}
