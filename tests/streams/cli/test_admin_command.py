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


def commands() -> list[Any]:
    found = []
    for app, names in OF_OWNERS.items():
        group: Any = typer.main.get_command(app)
        found += [group.commands[name] for name in sorted(names)]
    return found


@every_case("command", commands)
def test_an_owners_command_has_the_common_options(command: Any) -> None:
    names = [option.name for option in command.params]
    common = [name for name in names if name in AdminOptions._fields]
    sends_many = command.name == "sync"
    expected = [name for name in AdminOptions._fields if name != "request_id" or not sends_many]
    assert common == expected
    assert names[1 - len(common) :] == common[1:]
    first: Any = {option.name: option for option in commands()[0].params}
    for option in command.params:
        if option.name in AdminOptions._fields:
            same = first[option.name]
            assert (option.opts, option.help) == (same.opts, same.help)
            assert (option.default, option.envvar) == (same.default, same.envvar)


def test_options_of_a_command_follow_the_option_by() -> None:
    received: dict[str, Any] = {}

    @admin_command
    def command(name: str, *, admin: AdminOptions, more: bool = False) -> None:
        received.update(name=name, admin=admin, more=more)

    assert [*inspect.signature(command).parameters][:4] == ["name", "by", "more", "reason"]
    command(name="census", more=True, **AdminOptions(by="olga")._asdict())
    assert received == {"name": "census", "admin": AdminOptions(by="olga"), "more": True}
