"""Every command of an owner has the same options, with the same words."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from typer.main import get_group

from accountant.records.kinds import KINDS
from streams.cli.admin_command import AdminOptions, admin_command
from streams.cli.approval import app as approval
from streams.cli.dataset import app as dataset
from streams.cli.limit import app as limit
from streams.cli.member import app as member
from streams.cli.more import app as more
from tests.every_case import every_case
from tests.examples_of_records import COMMANDS

GROUPS = {
    "approval": approval,
    "dataset": dataset,
    "limit": limit,
    "member": member,
    "more": more,
}
"""The groups with commands of owners."""
SENT_BY_MANY = {"member sync": "member"}
"""Commands that send several records, and the kind of these."""

SENT_BY_OTHERS = {"more accept": "limit"}
"""Commands that send a record which another command sends, too, and the kind of one."""


def commands() -> Iterator[tuple[str, Any]]:
    """Yield each command that has the options of owners, with its name."""

    for group, app in GROUPS.items():
        for name, each in get_group(app).commands.items():
            if {"by", "reason"} <= {option.name for option in each.params}:
                yield f"{group} {name}", each


def for_administrators(name: str) -> bool:
    """Return whether administrators have a command, too: as the record that it sends says."""
    kinds = {kind.name: kind for kind in KINDS}
    sent = (SENT_BY_MANY | SENT_BY_OTHERS).get(name) or COMMANDS[name].kind
    return kinds[sent].allows_administrator


def test_every_record_of_owners_has_a_command_and_every_command_an_example() -> None:
    examples = {name for name, example in COMMANDS.items() if example.is_owners}
    assert {name for name, _ in commands()} == {*examples, *SENT_BY_MANY, *SENT_BY_OTHERS}
    sent = {COMMANDS[name].kind for name in examples}
    assert sent == {kind.name for kind in KINDS if kind.source == "admin"}


@every_case(("name", "command"), commands)
def test_an_owners_command_has_the_common_options(name: str, command: Any) -> None:
    names = [option.name for option in command.params]
    common = [name for name in names if name in AdminOptions._fields]
    absent = {"request_id"} if name in SENT_BY_MANY else set()
    absent |= set() if for_administrators(name) else {"as_administrator"}
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
