"""What a person has typed a field of a record as: an option, an argument or a variable."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

_COMMAND: Final[ContextVar[Any]] = ContextVar("command", default=None)
"""The context of the command that runs, with its parameters and their values."""

_OTHERWISE: Final = {
    "dataset": ("name",),
    "filter": ("filter_",),
    "name": ("team", "analyst", "each"),
    "other_datasets": ("others",),
    "owners": ("owner",),
    "roles": ("role",),
}
"""The parameters of commands that stand for a field of another name."""
_WHOLE: Final = 80
"""Errors cut no value of this length."""
_SHORTENED: Final = re.compile(r"\.\.\. \(\d+ characters\)$")
_OF_A_CLAIM: Final = "claim."
"""The fields of a claim are in its text, which names them."""


def with_typed_name(message: str, field: str, value: str) -> str:
    """Return the message of an error of a field with what the person has typed in its place.

    Args:
        message: begins with the field; a suggestion may come before it, and repeats it.
        value: that was rejected.
    """
    context = _COMMAND.get()
    typed = None if context is None else typed_name(context, field, value)
    if typed is None:
        return message
    return re.sub(rf"(^|\? ){re.escape(field)}(?= )", lambda found: found[1] + typed, message)


def remember_contexts(command: Any) -> None:
    """Have a command, and its subcommands, say which of them runs."""
    for child in getattr(command, "commands", {}).values():
        remember_contexts(child)
    invoke = command.invoke

    def remembered(context: Any) -> Any:
        _COMMAND.set(context)
        return invoke(context)

    command.invoke = remembered


def close_with_command(close: Callable[[], object]) -> None:
    """Have something closed when the command that runs has ended, however it ends."""
    context = _COMMAND.get()
    if context is not None:
        context.call_on_close(close)


def typed_name(context: Any, field: str, value: str) -> str | None:
    """Return the option, argument or variable that gave a field its value, None if none did."""
    if field.startswith(_OF_A_CLAIM):
        return None
    value = _SHORTENED.sub("", value)
    last = field.rpartition(".")[2].partition("[")[0]
    parameters = parameters_of(context)
    given = {name: each for name, each in parameters.items() if _is_given(context, name)}
    of_part, outer = field.replace(".", "_"), field.partition(".")[0]
    if of_part in (parameters if "." in field else given):  # of a part, also where it is left out
        return name_of(context, parameters[of_part])
    if outer in given and value == _begin(context, outer, value):
        return name_of(context, given[outer])
    if last in given:
        return name_of(context, given[last])
    for name in _OTHERWISE.get(last, ()):
        if name in given and value in _texts(context.params.get(name)):
            return name_of(context, given[name])
    same = [each for name, each in given.items() if value and value == _begin(context, name, value)]
    return name_of(context, same[0]) if len(same) == 1 else None


def parameters_of(context: Any) -> dict[str, Any]:
    """Return the parameters of the command by name."""
    return {str(each.name): each for each in context.command.params}


def name_of(context: Any, parameter: Any) -> str:
    """Return a parameter as the help has it; the variable, where that gave the value."""
    source = context.get_parameter_source(str(parameter.name))
    if source is not None and source.name == "ENVIRONMENT":
        return str(parameter.envvar)
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name).strip("[]").upper()
    return str(max(parameter.opts, key=len))


def _is_given(context: Any, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name in {"COMMANDLINE", "ENVIRONMENT"}


def _begin(context: Any, name: str, value: str) -> str:
    """Return the value of a parameter, cut as an error cuts a long one."""
    text = str(context.params.get(name))
    return text[: len(value)] if len(text) > _WHOLE else text


def _texts(value: Any) -> str:
    """Return a value as text; of several values, all of them."""
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
