"""The units of systemd name commands, settings and directives that exist."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import typer

from streams.cli.root import app
from streams.settings import PREFIX, Settings
from tests.every_case import every_case

OPENS = ("deploy/systemd/*",)
STARTS = ()

UNITS = sorted((Path(__file__).parents[2] / "deploy/systemd").glob("*.service"))
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
PROGRAM = "/opt/accountant/bin/accountant"
HARDENED = {
    "DynamicUser=yes",
    "NoNewPrivileges=yes",
    "ProtectSystem=strict",
    "ProtectHome=yes",
    "CapabilityBoundingSet=",
    "Restart=on-failure",
}


def test_there_is_a_unit_for_an_embedded_ledger_and_one_for_a_worker():
    assert [unit.stem for unit in UNITS] == ["accountant-serve", "accountant-worker"]


@every_case("unit", UNITS)
def test_a_unit_starts_a_command_with_settings_that_exist(unit):
    lines = unit.read_text().splitlines()
    (start,) = (line for line in lines if line.startswith("ExecStart="))
    program, command = start.removeprefix("ExecStart=").split()
    assert (program, command in COMMANDS) == (PROGRAM, True)
    assert set(lines) >= HARDENED
    variables = dict(
        line.removeprefix("Environment=").split("=", 1)
        for line in lines
        if line.startswith("Environment=")
    )
    names = {name.removeprefix(PREFIX).lower(): value for name, value in variables.items()}
    assert all(name.startswith(PREFIX) for name in variables)
    Settings(**names)  # an unknown name, or a value that breaks its rule, raises
    if command == "serve":
        path = names["url"].removeprefix("sqlite:///")
        assert path.startswith("/var/lib/accountant/")
        assert "StateDirectory=accountant" in lines


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_accepts_every_line_of_a_unit(unit, tmp_path):
    verify = shutil.which("systemd-analyze")
    if verify is None:
        # Without systemd the form alone: each line is a section, NAME=VALUE or a comment.
        for line in unit.read_text().splitlines():
            assert not line or line[0] in "#[" or "=" in line, line
        return
    here = tmp_path / unit.name
    here.write_text(unit.read_text().replace(PROGRAM, shutil.which("true") or "/bin/true"))
    done = subprocess.run([verify, "verify", here], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
