"""Finds environment variables that are no settings: misspelt ones, and those of Kubernetes.

A server with a misspelt `ACCOUNTANT_TOKENS` would run without authentication, so it refuses to
start. A command or client with a misspelt `ACCOUNTANT_URL` would use a file in its working
directory, so it refuses what is nearly a setting. Messages never repeat a value: it may be a
secret.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from accountant.likeness import most_alike, typing_errors
from streams.errors import Refused
from streams.variables import (
    LETTERS,
    PREFIX,
    READ_ELSEWHERE,
    may_be_ours,
    rest_of_another_prefix,
)

ALLOWS: Final = f"{PREFIX}ALLOW_UNKNOWN_SETTINGS"
ANY: Final = "*"
_PROTOCOLS: Final = frozenset({"tcp", "udp", "sctp"})
# Kubernetes sets `NAME_PORT` and others for a Service NAME; a Service may be named `accountant`.
_OF_HOSTS: Final = re.compile(r"ACCOUNTANT_(.+_)?(SERVICE_HOST|PORT_\d+_(TCP|UDP|SCTP)_ADDR)")
_OF_NUMBERS: Final = re.compile(
    r"ACCOUNTANT_(.+_)?(SERVICE_PORT(_.+)?|PORT_\d+_(TCP|UDP|SCTP)_PORT)"
)
_OF_PROTOCOLS: Final = re.compile(r"ACCOUNTANT_(.+_)?PORT_\d+_(TCP|UDP|SCTP)_PROTO")
_OF_ADDRESSES: Final = re.compile(r"ACCOUNTANT_(.+_)?PORT(_\d+_(TCP|UDP|SCTP))?")


class Unknown(NamedTuple):
    """Variables that are no settings, each with the setting that was probably meant, or "".

    Attributes:
        links: variables of Kubernetes; they are ignored.
        ignored: variables that are allowed, or have a prefix close to ours.
        refused: variables with our prefix.
    """

    links: list[str]
    ignored: dict[str, str]
    refused: dict[str, str]

    def check(self) -> None:
        """Check that no variable is refused.

        Raises: Refused: it names each variable, and the setting that was probably meant.
        """
        if not self.refused:
            return
        each = [
            f"{name} is no setting" + (f": did you mean {meant}?" if meant else ".")
            for name, meant in self.refused.items()
        ]
        raise Refused(
            f"{' '.join(each)} Rename or unset it, or add its name to {ALLOWS} (separated by "
            "commas); docs/reference/settings.md lists all settings"
        )


def is_service_link(name: str, value: str) -> bool:
    """Tell by its name and value whether Kubernetes has set a variable."""
    upper = name.upper()
    return (
        (_is_address(value) and _OF_HOSTS.fullmatch(upper) is not None)
        or (value.isdecimal() and _OF_NUMBERS.fullmatch(upper) is not None)
        or (value.lower() in _PROTOCOLS and _OF_PROTOCOLS.fullmatch(upper) is not None)
        or (_is_link(value) and _OF_ADDRESSES.fullmatch(upper) is not None)
    )


def unknown_names(environ: Mapping[str, str], fields: Collection[str]) -> Unknown:
    """Return the variables that are no settings.

    Args:
        fields: the names of all settings, as fields.
    """
    known = {field.upper() for field in (*fields, *READ_ELSEWHERE)}
    links = sorted(name for name in environ if is_service_link(name, environ[name]))
    allowed = _allowed(environ)
    ignored, refused = dict[str, str](), dict[str, str]()
    for name in sorted(environ.keys() - set(links)):
        upper = name.upper()
        if upper.startswith(PREFIX):
            rest = upper.removeprefix(PREFIX)
            if rest in known:
                continue
            to = ignored if upper in allowed or ANY in allowed else refused
            to[name] = _meant(rest, known)
            continue
        behind = rest_of_another_prefix(upper)
        if behind is not None:
            ignored[name] = _meant(behind, known)
    return Unknown(links, ignored, refused)


def check_alike(environ: Mapping[str, str], fields: Collection[str], used: Collection[str]) -> None:
    """Check that no variable is nearly a setting that a command or a client uses.

    Args:
        fields: the names of all settings, as fields.
        used: of these, the names of those that it uses.
    Raises: Refused: it names each variable, and the setting that was probably meant.
    """
    known = [f"{PREFIX}{field.upper()}" for field in (*fields, *READ_ELSEWHERE)]
    unused = {f"{PREFIX}{field.upper()}" for field in set(fields).difference(used)}
    allowed = _allowed(environ)
    alike = dict[str, str]()
    for name in sorted(environ):
        upper = name.upper()
        if upper in allowed or ANY in allowed or not may_be_ours(name):
            continue
        meant = most_alike(upper, known)
        if meant and meant not in unused and not is_service_link(name, environ[name]):
            alike[name] = meant
    Unknown([], {}, alike).check()


def check_spellings(environ: Mapping[str, str], fields: Collection[str]) -> None:
    """Check that no setting has two values, in upper and lower case.

    Args:
        fields: the names of the settings that are read.
    Raises: Refused: it names both variables.
    """
    read = {f"{PREFIX}{field.upper()}" for field in fields}
    found = dict[str, str]()
    for name in sorted(environ):
        if name.upper() not in read or is_service_link(name, environ[name]):
            continue
        other = found.setdefault(name.upper(), name)
        if environ[other] != environ[name]:
            raise Refused(
                f"{other} and {name} have different values, but are the same setting, since case "
                "does not matter: unset one of them"
            )


def _allowed(environ: Mapping[str, str]) -> frozenset[str]:
    texts = [value for name, value in environ.items() if name.upper() == ALLOWS]
    return frozenset(part.strip().upper() for text in texts for part in text.split(","))


def _meant(rest: str, known: Collection[str]) -> str:
    """Return the settings that are closest to a name without its prefix, "" for none."""
    most = max(LETTERS, len(rest) // 3)
    alike = [each for each in known if abs(len(each) - len(rest)) <= most]
    away = {each: typing_errors(rest, each, most) for each in alike}
    least = min(away.values(), default=most + 1)
    near = sorted(each for each, letters in away.items() if letters == least <= most)
    return " or ".join(f"{PREFIX}{each}" for each in near)


def _is_link(text: str) -> bool:
    """Tell whether a text looks like `tcp://10.0.0.1:8000`."""
    protocol, _, place = text.partition("://")
    host, _, port = place.rpartition(":")
    return protocol.lower() in _PROTOCOLS and port.isdecimal() and _is_address(host.strip("[]"))


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
