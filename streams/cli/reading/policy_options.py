"""Options and files that describe a policy, and their errors."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, cast, get_args

import msgspec
import typer
from msgspec import UNSET

from accountant.errors import OVER_ZERO, RequestInvalid
from accountant.filters import FILTERS
from accountant.policy import (
    MAX_OPEN,
    Access,
    Neighbours,
    Policy,
    Visibility,
    parameter_text,
)
from accountant.policy.proposal import NO_BESIDE
from accountant.questions.schema import Schema
from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import fail, fail_word
from streams.cli.printing.typed_names import name_of, parameters_of
from streams.cli.reading.options import NEIGHBOURS_HELP, UNIT_HELP

_Command = TypeVar("_Command", bound=Callable[..., None])

NO_LIMIT: Final = "none"
"""The --open-per-holder of a policy without such a limit."""
*_FIRST, _LAST = FILTERS
_RHO: Final = [name for name, kind in FILTERS.items() if "rho" in kind.budget_fields]
_HELP: Final = {
    "filter": f"{', '.join(_FIRST)} or {_LAST}.",
    "epsilon": "Epsilon of the budget, such as 1.",
    "rho": f"Rho of the budget, in nats, for filter {' or '.join(_RHO)}.",
    "delta": "Delta of the budget, such as 1e-6. Most filters need one.",
    "delta_for_claims": "The part of --delta that requests may spend, for claims with a delta.",
    "unit": UNIT_HELP,
    "neighbours": NEIGHBOURS_HELP,
    "horizon": "How long the budget should last, such as P365D; forecasts compare with it.",
    "most_per_request": "At most this part of the budget for one request; 0.1 is 10 %, 1 no cap.",
    "approve_above": "A request above this part of the budget waits until an owner approves it.",
    "approve_within": "How long it may wait, P1D to P30D. Default: P7D.",
    "open_per_holder": "How many reservations an analyst or engine may have open; none: no limit.",
    "access": "Who may ask: members or anyone. Default: members with a token, else anyone.",
    "visibility": "Whose requests analysts see: own, or members (those of all members).",
    "population": "Name of the people in the data. Datasets of one population add up.",
    "beside": "basic: grant what the filter or basic composition admits; none: the filter alone.",
}
"""The fields of a policy that have options, and their help."""
_PARAMETERS: Final = {
    field: parameter for kind in FILTERS.values() for field, parameter in kind.parameters.items()
}
_DEFAULTS: Final = msgspec.to_builtins(Policy()) | dict.fromkeys(
    (
        *("most_per_request", "beside", "access", "visibility", "population", "open_per_holder"),
        *("approve_above", "approve_within"),
    )
)
_HINTS: Final = {
    "delta": "add --delta 1e-6, or --filter basic",
    "epsilon": "--epsilon 1, or --filter zcdp for a budget of rho",
    "rho": "--filter zcdp with --rho, or another filter with --epsilon",
}
_NUMBER: Final = re.compile(r"Expected `str.*`, got `(?:int|float)` - at `\$\.(.*)`")
_WHOLE: Final = re.compile(r"[1-9][0-9]{0,8}")
_WORDS: Final = frozenset({"filter", "unit", "neighbours", "horizon"})
"""Text fields of a policy that are not amounts."""


def policy_options(
    *fields: str, after: str, hidden: bool = False, **said: str
) -> Callable[[_Command], _Command]:
    """Add an option to a command for each of some fields of a policy.

    The command receives them as `**fields`, None for those that were not typed; `policy_of` makes
    a policy of them.

    Args:
        fields: in the order of the command's help.
        after: the parameter of the command that precedes them there.
        hidden: the help leaves them out: the command takes them to say why it refuses them.
        said: help texts of this command that differ from the usual ones.
    """
    texts = _HELP | {field: parameter.help for field, parameter in _PARAMETERS.items()} | said
    options = [_option(field, texts[field], hidden=hidden) for field in fields]

    def with_options(command: _Command) -> _Command:
        signature = inspect.signature(command, eval_str=True)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        at = [p.name for p in own].index(after) + 1
        # typer reads the options from the signature.
        listed = signature.replace(parameters=[*own[:at], *options, *own[at:]])
        command.__signature__ = listed  # type: ignore[attr-defined]
        return command

    return with_options


def _option(field: str, text: str, *, hidden: bool) -> inspect.Parameter:
    default = _DEFAULTS.get(field)
    is_flag = field in _PARAMETERS and _PARAMETERS[field].is_flag
    # typer adds --no-FIELD to a flag that it names itself: one that is left out says no.
    names = [f"--{field.replace('_', '-')}"] if is_flag else []
    option = typer.Option(*names, help=text, hidden=hidden)
    value = bool if is_flag else str
    annotation = Annotated[value | None if default is None else value, option]  # type: ignore[valid-type]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(field, kind, default=default, annotation=annotation)


def policy_of(fields: Mapping[str, str | bool | None]) -> Policy:
    """Return the policy that options describe; options that were not typed leave fields out."""
    values: dict[str, Any] = {field: text for field, text in fields.items() if text is not None}
    if values.get("beside") == NO_BESIDE:
        del values["beside"]
    if values.get("open_per_holder") is not None:
        values["open_per_holder"] = whole_per_holder(values["open_per_holder"]) or UNSET
    for field in values.keys() & _PARAMETERS.keys():
        if isinstance(_PARAMETERS[field].example, tuple):
            values[field] = tuple(part.strip() for part in values[field].split(","))
    check_words(access=values.get("access"), visibility=values.get("visibility"))
    policy = Policy(**values)
    if policy.neighbours not in get_args(Neighbours):
        rule = f"must be {' or '.join(get_args(Neighbours))}"
        fail_word("--neighbours", rule, policy.neighbours, get_args(Neighbours))
    return policy


def whole_per_holder(text: str | int) -> int:
    """Return the number of an option --open-per-holder, 0 for `none`; end the command for others.

    Args:
        text: as it was typed, or the proposed number.
    """
    if text == NO_LIMIT:
        return 0
    found = _WHOLE.fullmatch(str(text))
    if found is None or int(found[0]) > MAX_OPEN:
        rule = f"must be a number from 1 to {MAX_OPEN}, or {NO_LIMIT}"
        fail(Exit.USAGE, f"--open-per-holder {rule}, got {text}")
    return int(found[0])


def check_words(**values: str | None) -> None:
    """End the command for an unknown value of `access` or `visibility`."""
    for field, known in (("access", get_args(Access)), ("visibility", get_args(Visibility))):
        word = values.get(field)
        if word is not None and word not in known:
            fail_word(f"--{field}", f"must be {' or '.join(known)}", word, known)


@contextmanager
def named_options(context: typer.Context) -> Iterator[None]:
    """End the command if a policy breaks a rule, naming the option if the command has one."""
    try:
        yield
    except RequestInvalid as error:
        field = error.field.removeprefix("policy.").partition("[")[0]
        missing = error.value in {"None", "nothing"}
        parameter = parameters_of(context).get(field)
        if parameter is None:
            if not missing:
                raise
            other = "this command has no option for it: write a policy file, for --policy"
            fail(Exit.USAGE, f"{error.field} {error.rule}", hint=other)
        got = "" if missing else f", got {error.value}"
        wanted = missing or "filter" in error.rule
        option = name_of(context, parameter)
        hint = _HINTS.get(field) if wanted else None
        if missing and field in _PARAMETERS:
            hint = f"add {option} {parameter_text(_PARAMETERS[field].example)}"
        if field == "epsilon" and "left out" in error.rule:
            hint = _HINTS["rho"]
        is_question = error.hint.endswith("?")
        meant = f"{option} {error.value}: {error.hint} " if is_question else ""
        rule = f"is missing: it {error.rule}" if missing else f"{error.rule}{got}"
        if error.rule == OVER_ZERO and error.value == "0":
            rule = f"is missing or 0: it {error.rule}"
        if error.hint and not is_question:
            rule = f"{rule}: {error.hint}"
        fail(Exit.USAGE, f"{meant}{option} {rule}", hint=hint)


def check_excluded(context: typer.Context, option: str, names: Iterable[str], *, why: str) -> None:
    """End the command if options were typed together with one that replaces them.

    Args:
        names: the command's parameters for the others. Defaults and environment variables do not
            count.
        why: the reason, for the message.
    """
    values = {name for name in names if is_typed(context, name)}
    typed = [parameter.opts[0] for parameter in context.command.params if parameter.name in values]
    if typed:
        *first, last = typed
        others = f"{', '.join(first)} and {last}" if first else last
        fail(Exit.USAGE, f"{option} excludes {others}: {why}")


def is_typed(context: typer.Context, *names: str) -> bool:
    """Tell whether one of some options was typed; a default does not count."""
    sources = [context.get_parameter_source(name) for name in names]
    return any(source is not None and source.name == "COMMANDLINE" for source in sources)


def read_policy(path: Path) -> Policy:
    """Return the policy in a JSON file; end the command if it has none."""
    from accountant.strict_json import read_json

    try:
        return cast(Policy, read_json(path.read_bytes(), Policy))
    except msgspec.MsgspecError as error:
        if not isinstance(error, msgspec.ValidationError):
            fail(Exit.USAGE, f"{path} is not valid JSON: {error}")
        number = _NUMBER.fullmatch(str(error))
        if number is None or number[1] in _WORDS:
            fail(Exit.USAGE, f"{path} is not a policy: {error}", hint=_meant(error, path))
        rule = 'must be text, as all amounts, such as "1"'
        fail(Exit.USAGE, f"{path} is not a policy: {number[1]} {rule}, got a number")


def read_schema(path: Path) -> Schema:
    """Return the schema in a JSON file; end the command if it has none."""
    from accountant.records.schema_file import read_schema_file

    try:
        return read_schema_file(path.read_bytes())
    except RequestInvalid as error:
        fail(Exit.USAGE, f"{path} is not a schema: {error}")


def read_spent(path: Path) -> dict[str, object]:
    """Return what was released before, from a JSON file; end the command if it does not say it."""
    from accountant.strict_json import read_json

    try:
        found = read_json(path.read_bytes())
    except msgspec.MsgspecError as error:
        fail(Exit.USAGE, f"{path} is not valid JSON: {error}")
    if not isinstance(found, dict) or "claim" not in found:
        hint = '{"claim": "pure:0.2", "evidence": "table 3", "fixed_before": false}'
        fail(Exit.USAGE, f"{path} does not say what was released before", hint=hint)
    return found


def _meant(error: msgspec.ValidationError, path: Path) -> str | None:
    """Return a suggestion for an unknown word in a policy file."""
    from accountant.records.translate import translate
    from accountant.strict_json import read_json

    try:
        translate(error, read_json(path.read_bytes()), Policy)
    except RequestInvalid as wrong:
        return wrong.hint or None
