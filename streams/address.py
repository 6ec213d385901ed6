"""Addresses: of ledgers (a file, a server, Kafka brokers), and which URLs nobody can read along."""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

from accountant.errors import BudgetError

LAST_PORT: Final = 65_535
LOOPBACK_HOSTS: Final = frozenset({"127.0.0.1", "localhost", "::1"})
"""Hosts of URLs that are this machine."""
_BROKER = re.compile(r"[A-Za-z0-9._-]+:[0-9]{1,5}|\[[0-9a-fA-F:]+\]:[0-9]{1,5}")

Kind = Literal["sqlite", "http", "kafka"]


class AddressInvalid(BudgetError, ValueError):
    """A ledger's address is not valid."""


class LedgerUrl(NamedTuple):
    """Where a ledger is.

    Attributes:
        kind: a file on this machine, a server, or Kafka.
        target: a path (`sqlite`), a URL without a trailing slash (`http`), or
            `host:port`, several separated by commas (`kafka`).
    """

    kind: Kind
    target: str


def ledger_url(text: str) -> LedgerUrl:
    """Parse the address of a ledger.

    Args:
        text: `sqlite:///relative.db`, `sqlite:////absolute.db`, `http://host:port`,
            `https://host`, or `kafka://host:port`.
    Raises: AddressInvalid: none of these. The message never repeats a user name or password.
    """
    scheme, separator, rest = text.partition("://")
    if not separator:
        meant = _server_meant(text)
        raise AddressInvalid(
            f"url must begin with sqlite:///, http://, https:// or kafka://, got {text[:80]}. "
            + (f"Try {meant} for a server. " if meant else "")
            + "A ledger in a file is sqlite:///FILE"
        )
    if "@" in rest and scheme != "sqlite":
        raise AddressInvalid(
            "url must not contain a user name or password. Use a token (ACCOUNTANT_TOKEN)"
        )
    if scheme == "sqlite":
        path = rest.removeprefix("/")
        if path == rest or not path or path.endswith("/"):
            raise AddressInvalid(
                f"url must be sqlite:///FILE, or sqlite:////FILE from the root, got {text[:80]}"
            )
        if not _is_utf8(path) or "\0" in path:
            raise AddressInvalid(f"url must name a file in UTF-8, got {text[:80]!a}")
        return LedgerUrl("sqlite", path)
    if scheme in {"http", "https"}:
        if not _is_plain(text):
            raise AddressInvalid(f"url must be {scheme}://HOST:PORT, got {text[:80]}")
        return LedgerUrl("http", text.rstrip("/"))
    if scheme == "kafka":
        brokers = rest.rstrip("/")
        if not all(
            _BROKER.fullmatch(broker) and int(broker.rpartition(":")[2]) <= LAST_PORT
            for broker in brokers.split(",")
        ):
            raise AddressInvalid(f"url must be kafka://HOST:PORT[,HOST:PORT], got {text[:80]}")
        return LedgerUrl("kafka", brokers)
    raise AddressInvalid(
        f"url must not begin with {scheme[:20]}://. "
        "Use sqlite:///FILE, http://HOST:PORT or kafka://HOST:PORT"
    )


def _server_meant(text: str) -> str:
    """Return the URL of a server that is written as HOST:PORT, "" for anything else."""
    if not _BROKER.fullmatch(text):
        return ""
    url = f"http://{text}"
    return url if is_private_url(url) else f"https://{text}"


def _is_utf8(text: str) -> bool:
    """Whether a text can be encoded; the command line may contain other bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_plain(url: str) -> bool:
    """Whether a URL has a host and a valid port if any, and neither query nor fragment."""
    if not url.isprintable() or " " in url:
        return False
    try:
        parts = urlsplit(url)
        return bool(parts.hostname and parts.port != 0 and not parts.query and not parts.fragment)
    except ValueError:
        return False


def is_private_url(url: str) -> bool:
    """Tell whether a connection to a URL is encrypted, or stays on this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:  # such as half of an IPv6 address
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and host in LOOPBACK_HOSTS)
