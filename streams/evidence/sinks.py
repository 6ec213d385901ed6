"""Where signed checkpoints go: the port of a sink, and the addresses of sinks."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol
from urllib.parse import urlsplit

from streams.address import AddressInvalid, ledger_url
from streams.errors import Refused
from streams.evidence.note import Checkpoint

Kind = Literal["directory", "topic", "webhook"]
_RULE: Final = "a place must be a DIRECTORY, kafka://HOST:PORT/TOPIC or https://HOST..."
# A list of brokers has commas, too.
_NEXT: Final = re.compile(r",\s*(?=/|[A-Za-z][A-Za-z0-9+.-]*://)")
_SCHEME: Final = re.compile(r"(?:[Kk]afka|[Hh]ttps?|file|sqlite):|[A-Za-z][A-Za-z0-9+.-]*://")
_TOPIC: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")


class Place(Protocol):
    """A place that takes checkpoints; one thread at a time calls it, outside of an event loop."""

    @property
    def kind(self) -> Kind:
        """Which adapter this is, for metrics."""
        ...

    @property
    def name(self) -> str:
        """What logs, messages and people are shown of its address: nothing secret."""
        ...

    def put(self, checkpoint: Checkpoint, note: bytes) -> str:
        """Keep a checkpoint; return where it stands. It may be there already.

        Raises: Unavailable, Refused: it is not known to be kept; the message holds no secret.
        """
        ...


class ReadablePlace(Place, Protocol):
    """A place whose checkpoints can be read again."""

    def notes(self) -> Iterable[tuple[str, bytes]]:
        """Return what stands there with a name each, also what is no checkpoint.

        Raises: Unavailable, Refused: it cannot be read whole.
        """
        ...


class Address(NamedTuple):
    """Where a place is.

    Attributes:
        target: a path, a URL that may hold a secret, or brokers as `host:port,host:port`.
        topic: of a topic, else empty.
        name: what may be shown: of a webhook scheme and host alone.
    """

    kind: Kind
    target: str
    name: str
    topic: str = ""


def address_of(text: str, *, unencrypted: bool = False) -> Address:
    """Return what the address of a place names.

    Args:
        unencrypted: take http:// to other machines, too.

    Raises: Refused: it names none; what may be secret is not repeated.
    """
    if text.startswith("kafka://"):
        return _topic(text)
    if text.startswith(("https://", "http://")):
        return _webhook(text, unencrypted=unencrypted)
    if not text or "\0" in text or _SCHEME.match(text):
        raise Refused(_RULE)
    return Address("directory", text, text)


def addresses_of(text: str, *, unencrypted: bool = False) -> list[Address]:
    """Return what a list of places names, separated by commas.

    Raises: Refused: as `address_of`; or a directory is named by no absolute path.
    """
    found = []
    for each in _NEXT.split(text):
        address = address_of(each.strip(), unencrypted=unencrypted)
        if address.kind == "directory" and not Path(address.target).is_absolute():
            raise Refused(f"{_RULE}; a directory must be named from the root, with a first /")
        found.append(address)
    return found


def _topic(text: str) -> Address:
    brokers, _, topic = text.removeprefix("kafka://").partition("/")
    try:
        target = ledger_url(f"kafka://{brokers}").target
    except AddressInvalid as error:
        raise Refused(f"{_RULE}: {error}") from None
    if _TOPIC.fullmatch(topic) is None:
        raise Refused(f"{_RULE}: kafka://{target} must be followed by /TOPIC")
    return Address("topic", target, f"kafka://{target}/{topic}", topic)


def _webhook(text: str, *, unencrypted: bool) -> Address:
    try:
        parts = urlsplit(text)
        known = bool(parts.hostname) and parts.port != 0 and not parts.fragment
        plain = parts.username is None and parts.password is None
    except ValueError:
        known = plain = False
    if not known or not plain or not text.isascii() or not text.isprintable() or " " in text:
        raise Refused(f"{_RULE}, without a user name")
    name = f"{parts.scheme}://{parts.netloc}"
    if parts.scheme == "http" and not (unencrypted or _is_loopback(parts.hostname or "")):
        raise Refused(
            f"{name} is another machine: use https://, or set "
            "ACCOUNTANT_CHECKPOINT_PLACES_UNENCRYPTED=true"
        )
    return Address("webhook", text, name)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
