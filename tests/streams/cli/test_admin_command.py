"""Every command of an owner has the same options, with the same words."""

from __future__ import annotations

import inspect
from typing import Any

import typer.main

from streams.cli import dataset, limit, member
from streams.cli.admin_command import AdminOptions, admin_command
from tests.every_case import every_case

OF_OWNERS = {
    dataset.app: {"open", "amend", "pause", "resume", "close", "resolve"},
    member.app: {"set", "remove", "sync"},
    limit.app: {"set", "remove"},
}
OF_ADMINISTRATORS = {(dataset.app, "pause"), (dataset.app, "resume")} | {
    (member.app, name) for name in OF_OWNERS[member.app]
}


def commands() -> list[tuple[bool, Any]]:
    """Return each command, and whether administrators have it, too."""
    found = []
    for app, names in OF_OWNERS.items():
        group: Any = typer.main.get_command(app)
        found += [
            ((app, name) in OF_ADMINISTRATORS, group.commands[name]) for name in sorted(names)
        ]
    return found


@every_case(("for_administrators", "command"), commands)
def test_an_owners_command_has_the_common_options(for_administrators: bool, command: Any) -> None:
    names = [option.name for option in command.params]
    common = [name for name in names if name in AdminOptions._fields]
    absent = {"request_id"} if command.name == "sync" else set()
    absent |= set() if for_administrators else {"as_administrator"}
    expected = [name for name in AdminOptions._fields if name not in absent]
    assert common == expected
    assert names[-len(common) :] == common
    every = [option for _, each in commands() for option in each.params]
    first: Any = {option.name: option for option in reversed(every)}
    for option in command.params:
        if option.name in AdminOptions._fields:
            same = first[option.name]
            assert (option.opts, option.help) == (same.opts, same.help)
            assert (option.default, option.envvar) == (same.default, same.envvar)


def test_a_command_gets_its_options_as_one_value() -> None:
    received: dict[str, Any] = {}

    @admin_command(for_administrators=True)
    def command(name: str, *, admin: AdminOptions) -> None:
        received.update(name=name, admin=admin)

    given = AdminOptions(by="olga", as_administrator=True)
    assert [*inspect.signature(command).parameters] == ["name", *AdminOptions._fields]
    command(name="census", **given._asdict())
    assert received == {"name": "census", "admin": given}
