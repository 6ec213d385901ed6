"""The rules of time zones: those of the package `tzdata`, never those of the machine or the engine.

Two machines with one version of the package read a cell as the same date.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import Any, Final

from msgspec import UNSET, UnsetType

from accountant.questions.schema import Schema
from accountant.questions.zone_rules import UTC, ZoneRules, parse_zone
from streams.errors import NotInstalled, needs_extra

_PACKAGE: Final = "tzdata"


def zone_of(schema: Schema) -> ZoneRules | None:
    """Return the rules of a schema's zone, None if the package has no such zone.

    Raises: NotInstalled: the message names the extra.
    """
    return UTC if schema.zone is UNSET else find_zone(schema.zone)


@lru_cache(maxsize=64)
def find_zone(name: str) -> ZoneRules | None:
    """Return the rules of a zone by its exact name, None if there are none.

    Raises: NotInstalled: the message names the extra.
    """
    package = _import_tzdata()
    # A file system may fold case, and has other files: the package lists its zones.
    names = (files(package) / "zones").read_text(encoding="ascii").split()
    if name not in names:
        return None
    file = (files(package) / "zoneinfo").joinpath(*name.split("/"))
    return parse_zone(name, _version(package), file.read_bytes())


def zone_rules_version(schema: Schema) -> str | UnsetType:
    """Return the version of the rules of a schema's zone, UNSET where it has none.

    Raises: NotInstalled: the message names the extra.
    """
    return UNSET if schema.zone is UNSET else _version(_import_tzdata())


def _version(package: Any) -> str:
    return f"{_PACKAGE} {package.__version__}"


def _import_tzdata() -> Any:
    try:
        import tzdata
    except ModuleNotFoundError as error:
        raise NotInstalled(needs_extra("a time zone", _PACKAGE, "answers")) from error
    return tzdata
