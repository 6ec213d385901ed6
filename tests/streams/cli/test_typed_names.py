"""An error of a field names what the person has typed: of every command, every option."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from streams.cli.printing.typed_names import typed_name
from streams.cli.root import command
from tests.every_case import every_case
from tests.streams.cli.conftest import Command


def commands(group: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield each command with its name."""
    for name, each in group.commands.items():
        if hasattr(each, "commands"):
            yield from commands(each, (*words, name))
        else:
            yield " ".join((*words, name)), each


def context(of: Any, source: str, /, **given: str) -> Any:
    """Return the context of a command in which some parameters are given."""
    sources = {name: SimpleNamespace(name=source) for name in given}
    return SimpleNamespace(command=of, params=given, get_parameter_source=sources.get)


def test_each_parameter_of_each_command_is_named_as_it_is_typed() -> None:
    wrong, count = [], 0
    for name, each in commands(command()):
        for parameter in each.params:
            ways = {"COMMANDLINE": max(parameter.opts, key=len)}
            if parameter.param_type_name == "argument":
                ways = {"COMMANDLINE": parameter.metavar.strip("[]").upper()}
            if isinstance(parameter.envvar, str):
                ways["ENVIRONMENT"] = parameter.envvar
            for by, typed in ways.items():
                count += 1
                found = typed_name(context(each, by, **{parameter.name: "x"}), parameter.name, "x")
                if found != typed:
                    wrong.append(f"{name}: {parameter.name} as {found}, typed as {typed}")
    assert not wrong, "\n".join(wrong)
    assert count > 400


def test_a_field_that_nobody_has_typed_keeps_its_name() -> None:
    ask = command().commands["ask"]
    assert typed_name(context(ask, "COMMANDLINE", purpose="x"), "request_id", "y") is None
    assert typed_name(context(ask, "DEFAULT", request_id="x"), "request_id", "x") is None
    assert typed_name(context(ask, "COMMANDLINE", epsilon="x"), "claim.epsilon", "x") is None
    two = context(ask, "COMMANDLINE", purpose="x", via="x")
    assert typed_name(two, "note", "x") is None  # either may be meant


TYPED: list[tuple[tuple[str, ...], dict[str, str], str]] = [
    (("ask", "census", "pure:0.1", "--analyst", "ana", "--id", "x"), {}, "--id must be a UUID"),
    (("ask", "census", "pure:0.1"), {"ACCOUNTANT_ANALYST": "a b"}, "ACCOUNTANT_ANALYST must be 1"),
    (("ask", "a b", "pure:0.1", "--analyst", "ana"), {}, "DATASET must be 1"),
    (("ask", "census", "pure:0.1", "--analyst", "ana", "--via", "a b"), {}, "--via must be 1"),
    (("dataset", "pause", "census", "--id", "7"), {}, "--id must be a UUID"),
    (("dataset", "pause", "census", "--by", "a b"), {}, "--by must be 1"),
    (("member", "set", "census", "a b", "--role", "analyst"), {}, "MEMBER must be 1"),
    (("member", "set", "census", "ana", "--role", "analst"), {}, "--role must be owner"),
    (("limit", "set", "census", "--team", "a b", "--part", "1"), {}, "--team must be 1"),
    (("limit", "set", "census", "--team", "red", "--part", "7"), {}, "--part must be above 0"),
    (("dataset", "amend", "census", "--alert-at", "7"), {}, "--alert-at must be"),
    (("dataset", "label", "census", "x" * 999), {}, "TEXT must be"),
]


@every_case(("arguments", "variables", "said"), TYPED)
def test_an_error_names_what_was_typed(
    opened: Command, arguments: tuple[str, ...], variables: dict[str, str], said: str
) -> None:
    done = opened(*arguments, **variables)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {said}"), done.err


def test_a_suggestion_names_it_twice() -> None:
    from streams.cli.printing.typed_names import _COMMAND, with_typed_name

    ask = command().commands["ask"]
    token = _COMMAND.set(context(ask, "COMMANDLINE", law="laplac"))
    try:
        said = with_typed_name("law laplac: did you mean laplace? law must be one", "law", "laplac")
    finally:
        _COMMAND.reset(token)
    assert said == "--law laplac: did you mean laplace? --law must be one"
