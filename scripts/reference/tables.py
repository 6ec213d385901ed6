"""The tables and lists that pages of the reference take from the code, by name.

A table of fields leaves out those that the page's own rows explain, `known`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec
import typer
from struct_words import field_words

from accountant.advice.preview import Preview
from accountant.display.reasons import REASONS
from accountant.field_rules import rule_of
from accountant.records import Snapshot
from accountant.records.asks import AskRow
from accountant.records.kinds import KINDS, RecordKind
from accountant.records.members import MemberRow
from accountant.records.outcomes import Outcome
from accountant.records.pending_rows import PendingRow
from accountant.records.previews import PreviewRequest
from accountant.records.records import PendingUpdate
from accountant.records.reservation_rows import ReservationRow
from accountant.records.state_rows import PartitionRow, ScopeRow
from accountant.versions import Format
from accountant.views.datasets import DatasetView
from accountant.views.limit_views import AnalystBudget, ScopeView
from accountant.views.pending import PendingView
from accountant.views.period_report import PeriodReport, ReportRow
from accountant.views.why import Why
from streams import AsyncAccountant
from streams.cli.root import app
from streams.client import AsyncOwner

Known = frozenset[str]

_STRUCTS: Final[dict[str, type]] = {
    each.__name__: each
    for each in (
        *(kind.body for kind in KINDS),
        *(PartitionRow, Snapshot, MemberRow, ScopeRow, ReservationRow, AskRow),
        *(PendingRow, PendingUpdate, PendingView),
        *(DatasetView, ScopeView, AnalystBudget, PreviewRequest, Preview, Why),
        *(PeriodReport, ReportRow),
    )
}
_CLIENTS: Final[dict[str, type]] = {
    each.__name__: each for client in (AsyncAccountant, AsyncOwner) for each in client.__mro__
}


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _rows(rows: Iterable[Iterable[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def _words(struct: type, known: Known) -> list[tuple[tuple[str, ...], str]]:
    # The version of a row's format is the same in all of them.
    same = {each.encode_name for each in msgspec.structs.fields(struct) if each.type is Format}
    return field_words(struct, known | same)


def _optional(struct: type) -> set[str]:
    """Return the fields of a type that may be left out, by their names on the wire."""
    return {each.encode_name for each in msgspec.structs.fields(struct) if not each.required}


def fields(known: Known, *structs: str) -> str:
    """Return a row for each entry in the docstrings of types: names, words."""
    return _rows(
        (_code(names), text) for each in structs for names, text in _words(_STRUCTS[each], known)
    )


def input_fields(known: Known, struct: str) -> str:
    """Return such rows of a record that clients send: names, whether they are required, words."""
    kind = _STRUCTS[struct]
    optional = _optional(kind)
    rows = []
    for names, text in _words(kind, known):
        needed = [name for name in names if name not in optional]
        # Where some of them are, they are named.
        required = "yes" if len(needed) == len(names) else _code(needed) or "no"
        rows.append((_code(names), required, text))
    return _rows(rows)


def _kinds(chosen: str, without: str = "without", *names: str) -> list[RecordKind]:
    """Return the kinds of an input, of the routes of a dataset, of answers and so on, or one."""
    selections: dict[str, Callable[[RecordKind], bool]] = {
        "admin": lambda kind: kind.source == "admin",
        "owner": lambda kind: kind.source == "admin" and kind.path is not None,
        "answer": lambda kind: kind.source == "admin" and kind.group == "requests",
        "administrator": lambda kind: kind.allows_administrator,
    }
    chooses = selections.get(chosen, lambda kind: kind.name == chosen)
    found = [kind for kind in KINDS if chooses(kind)]
    assert found, chosen
    assert without == "without", without
    assert {kind.name for kind in found} >= set(names), names
    return [kind for kind in found if kind.name not in names]


def kinds(_known: Known, *chosen: str) -> str:
    """Return the names of kinds of record."""
    return _code(kind.name for kind in _kinds(*chosen))


def kind_routes(_known: Known, *chosen: str) -> str:
    """Return the addresses of kinds of record below a dataset's, the first with its method."""
    return "`POST " + _code(f".../{kind.path}" for kind in _kinds(*chosen)).removeprefix("`")


def kind_fields(known: Known, *chosen: str) -> str:
    """Return a row for each field of kinds of record: names, kinds that have it, words."""
    listed = _kinds(*chosen)
    having: dict[tuple[tuple[str, ...], str], list[RecordKind]] = {}
    for kind in listed:
        for entry in _words(kind.body, known):
            having.setdefault(entry, []).append(kind)
    # What all or most of them have comes first.
    return _rows(
        (_code(names), _in(names, those, listed), text)
        for (names, text), those in sorted(having.items(), key=lambda each: -len(each[1]))
    )


def _in(names: tuple[str, ...], those: list[RecordKind], listed: list[RecordKind]) -> str:
    others = [kind for kind in listed if kind not in those]
    if not others:
        said = "all"
    elif len(others) == 1:
        said = f"all but `{others[0].name}`"
    else:
        said = _code(kind.name for kind in those)
    optional = all(_optional(kind.body).issuperset(names) for kind in those)
    return f"{said}, optional" if optional else said


def fields_of_rule(_known: Known, rule: str) -> str:
    """Return the fields of records whose type has a rule."""
    found = {
        field.encode_name: None
        for kind in KINDS
        for field in msgspec.structs.fields(kind.body)
        if rule_of(field.type) == rule
    }
    return _code(found)


def public_outcomes(_known: Known) -> str:
    """Return the outcomes that every reader of a dataset sees."""
    return _code(outcome for outcome in Outcome if outcome.is_public)


def _call(name: str, method: Any) -> str:
    """Return how a method is called: with each argument that it needs, and `...` for others."""
    _self, *parameters = inspect.signature(method).parameters.values()
    needed = [each for each in parameters if each.default is each.empty]
    shown = [f"{each.name}=..." if each.kind is each.KEYWORD_ONLY else each.name for each in needed]
    more = ["..."] if len(needed) < len(parameters) else []
    return f"{name}({', '.join([*shown, *more])})"


def _methods(client: str) -> list[tuple[str, Any]]:
    """Return the public methods of a client's class, then those that it inherits."""
    return [
        (name, method)
        for each in _CLIENTS[client].__mro__
        for name, method in vars(each).items()
        if callable(method) and not name.startswith("_")
    ]


def calls(_known: Known, client: str) -> str:
    """Return a row for each method of a client: the call, and what its docstring says first."""
    return _rows(
        (f"`{_call(name, method)}`", " ".join(inspect.getdoc(method).split("\n\n")[0].split()))
        for name, method in _methods(client)
    )


def call_names(_known: Known, client: str) -> str:
    """Return the names of a client's methods."""
    return _code(name for name, _ in _methods(client))


def _commands(command: Any, *path: str) -> Iterable[tuple[str, Any]]:
    children = getattr(command, "commands", None)
    if children is None:
        yield " ".join(path), command
        return
    for name, child in children.items():
        yield from _commands(child, *path, name)


def options_of(_known: Known, variable: str) -> str:
    """Return the options of commands that read a variable of the environment."""
    return _code(
        f"{name} {parameter.opts[0]}"
        for name, command in _commands(typer.main.get_command(app))
        for parameter in command.params
        if parameter.envvar == variable
    )


def remedies(known: Known) -> str:
    """Return what to do about each reason, by code."""
    head = "| code | in words | do |\n|---|---|---|\n"
    return head + _rows(
        (f"`{reason}`", words.title, words.remedy) for reason, words in sorted(REASONS.items())
    )


TABLES: Final[dict[str, Callable[..., str]]] = {
    each.__name__: each
    for each in (
        *(fields, input_fields, kinds, kind_routes, kind_fields, fields_of_rule),
        *(public_outcomes, calls, call_names, options_of, remedies),
    )
}
