"""Sinks of signed checkpoints: their protocol and addresses."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol
from urllib.parse import urlsplit

from streams.address import AddressInvalid, ledger_url
from streams.errors import Refused
from streams.evidence.signed_checkpoint import SignedHead

Kind = Literal["directory", "topic", "webhook"]
_RULE: Final = "a sink must be a DIRECTORY, kafka://HOST:PORT/TOPIC or https://HOST..."
# Brokers are separated by commas, too.
_NEXT: Final = re.compile(r",\s*(?=/|[A-Za-z][A-Za-z0-9+.-]*://)")
_SCHEME: Final = re.compile(r"(?:[Kk]afka|[Hh]ttps?|file|sqlite):|[A-Za-z][A-Za-z0-9+.-]*://")
_TOPIC: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")


class Sink(Protocol):
    """Stores checkpoints. One thread at a time calls it, outside of any event loop."""

    @property
    def kind(self) -> Kind:
        """The kind of sink, for metrics."""
        ...

    @property
    def name(self) -> str:
        """The address as shown in logs and messages, without secrets."""
        ...

    def put(self, checkpoint: SignedHead, signed_text: bytes) -> str:
        """Store a checkpoint, which may be there already; return its location.

        Raises: Unavailable, Refused: it may not be stored. The message contains no secret.
        """
        ...


class ReadableSink(Sink, Protocol):
    """A sink whose checkpoints can be read back."""

    def notes(self) -> Iterable[tuple[str, bytes]]:
        """Return each entry with its name, even one that is not a checkpoint.

        Raises: Unavailable, Refused: the sink cannot be read completely.
        """
        ...


class Address(NamedTuple):
    """The address of a sink.

    Attributes:
        target: a path, a URL that may hold a secret, or brokers as `host:port,host:port`.
        topic: the topic's name, else empty.
        name: the public part: of a webhook, scheme and host only.
    """

    kind: Kind
    target: str
    name: str
    topic: str = ""


def address_of(text: str, *, unencrypted: bool = False) -> Address:
    """Parse the address of a sink.

    Args:
        unencrypted: allow http:// to other machines.

    Raises: Refused: it is invalid. The message repeats nothing that may be secret.
    """
    if text.startswith("kafka://"):
        return _topic(text)
    if text.startswith(("https://", "http://")):
        return _webhook(text, unencrypted=unencrypted)
    if not text or "\0" in text or _SCHEME.match(text):
        raise Refused(_RULE)
    return Address("directory", text, text)


def addresses_of(text: str, *, unencrypted: bool = False) -> list[Address]:
    """Parse a list of sinks' addresses, separated by commas.

    Raises: Refused: as for `address_of`, or a directory's path is not absolute.
    """
    found = []
    for each in _NEXT.split(text):
        address = address_of(each.strip(), unencrypted=unencrypted)
        if address.kind == "directory" and not Path(address.target).is_absolute():
            raise Refused(f"{_RULE}; a directory must be an absolute path, which begins with /")
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
