"""What the help prints for the value of an option: the word for what is wanted, not its type."""

from __future__ import annotations

from copy import copy
from typing import Any, Final

from typer.models import TyperPath

_WORDS: Final = {
    "NAME": (
        *("analyst", "by", "client_id", "dataset", "each", "instance_id", "member", "name"),
        *("owner", "population", "principal", "team", "topic", "via"),
    ),
    "ID": ("request_id", "ledger"),
    "TEXT": ("purpose", "reason"),
    "SECONDS": ("every", "wait"),
    "N": (
        "first",
        "follows",
        "jobs",
        "last",
        "open_per_holder",
        "partition",
        "partitions",
        "replication",
    ),
    "EPSILON": ("epsilon_each", "epsilon_ex_post"),
    "DELTA": ("delta_ex_post", "delta_for_claims"),
    "PART": (
        "alert_at",
        "approve_above",
        "confidence",
        "most_per_request",
        "part",
        "pace",
        "reserved",
    ),
    "DURATION": ("approve_within", "horizon", "period"),
    "DATE": ("before", "expires", "since", "until"),
    "HOST": ("bind",),
    "PORT": ("metrics_port",),
    "DIRECTORY|URL": ("checkpoints", "to"),
    "FILTER": ("filter_",),
    "ORDER,ORDER": ("orders",),
    "WEIGHT,WEIGHT": ("weights",),
    "members|anyone": ("access",),
    "own|members": ("visibility",),
    "basic|none": ("beside",),
    "add_remove|replace": ("neighbours",),
    "CHARACTER": ("delimiter",),
    "URL": ("issuer", "resource"),
}
_OF_PARAMETER: Final = {name: word for word, names in _WORDS.items() for name in names}


def set_metavars(command: Any) -> None:
    """Give each value of a command, and of its subcommands, a word for what is wanted.

    A parameter that declares its own keeps it; words for several parameters are in the table, and
    any other parameter's name is the word.
    """
    for child in getattr(command, "commands", {}).values():
        set_metavars(child)
    for parameter in command.params:
        is_choice = hasattr(parameter.type, "choices")
        if parameter.metavar is None and not is_choice and not getattr(parameter, "is_flag", False):
            parameter.metavar = _word(parameter)
        if parameter.param_type_name == "argument":
            # The help prints an argument's word first, and then its type, which says less.
            parameter.type = copy(parameter.type)
            parameter.type.get_metavar = _no_type


def _no_type(**_: Any) -> str:
    return ""


def _word(parameter: Any) -> str:
    name = str(parameter.name)
    if isinstance(parameter.type, TyperPath):
        return "FILE" if parameter.type.file_okay else "DIRECTORY"
    # An argument is named as the usage line and its help name it.
    is_option = parameter.param_type_name == "option"
    return (_OF_PARAMETER.get(name) if is_option else None) or name.upper().replace("_", "-")
