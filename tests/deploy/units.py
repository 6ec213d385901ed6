"""The units of systemd as tests look at them, and the roles that they start."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import typer
from click import Command

OPENS = ("deploy/systemd/*",)
STARTS = ("streams.cli",)

ROOT = Path(__file__).parents[2]
WHERE = ROOT / "deploy/systemd"
PROGRAM = "/opt/accountant/bin/accountant"
# What the program runs until a signal.
ROLES = ("serve", "worker", "gateway", "curator")
ON_KAFKA = {"worker", "gateway", "curator"}
READS_DATA = {"serve", "curator"}


@cache
def commands() -> Mapping[str, Command]:
    """Return the commands of the program."""
    from streams.cli.root import app

    found: Mapping[str, Command] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    return found


class Unit(dict[str, list[str]]):
    """The directives of a unit: the values of each name, in their order, sections apart."""

    @property
    def environment(self) -> dict[str, str]:
        return dict(value.split("=", 1) for value in self["Environment"])

    def one(self, name: str) -> str:
        (value,) = self[name]
        return value


@cache
def unit_of(role: str) -> Unit:
    """Read a unit strictly: each line is a comment, a section, or NAME=VALUE."""
    found = Unit()
    for line in (WHERE / f"accountant-{role}.service").read_text().splitlines():
        if not line or line.startswith(("#", "[")):
            continue
        name, equals, value = line.partition("=")
        assert (equals, name.isalpha()) == ("=", True), line
        found.setdefault(name, []).append(value)
    return found


def settings_of(role: str) -> dict[str, str]:
    """Return the settings in the example files of a unit."""
    found: dict[str, str] = {}
    for file in unit_of(role)["EnvironmentFile"]:
        path = WHERE / Path(file.removeprefix("-")).name
        lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        found |= dict(line.split("=", 1) for line in lines)
    return found


def environment_of(role: str, *, examples: bool) -> dict[str, str]:
    """Return the environment of a unit; files override what the unit itself sets."""
    found = unit_of(role).environment | (settings_of(role) if examples else {})
    return {name: value.replace("%H", "a-machine") for name, value in found.items()}
