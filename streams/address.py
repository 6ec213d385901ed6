"""Addresses of ledgers: a file, a gateway, or brokers."""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

from accountant.errors import BudgetError

LAST_PORT: Final = 65_535
_BROKER = re.compile(r"[A-Za-z0-9._-]+:[0-9]{1,5}|\[[0-9a-fA-F:]+\]:[0-9]{1,5}")

Kind = Literal["sqlite", "http", "kafka"]


class AddressInvalid(BudgetError, ValueError):
    """A ledger's address cannot be understood."""


class LedgerUrl(NamedTuple):
    """Where a ledger is.

    Attributes:
        kind: in a file of this machine, behind a gateway, or on Kafka.
        target: a path (`sqlite`), a URL without a slash at its end (`http`), or
            `host:port`, several separated by commas (`kafka`).
    """

    kind: Kind
    target: str


def ledger_url(text: str) -> LedgerUrl:
    """Return what an address names.

    Args:
        text: `sqlite:///relative.db`, `sqlite:////absolute.db`, `http://host:port`,
            `https://host`, or `kafka://host:port`.
    Raises: AddressInvalid: none of these. A user name or password is never repeated.
    """
    scheme, separator, rest = text.partition("://")
    if not separator:
        raise AddressInvalid(
            f"url must begin with sqlite:///, http://, https:// or kafka://, got {text[:80]}"
        )
    if "@" in rest and scheme != "sqlite":
        raise AddressInvalid("url must hold no user name or password")
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
    raise AddressInvalid(f"url must not begin with {scheme[:20]}://: use sqlite, http or kafka")


def _is_utf8(text: str) -> bool:
    """Tell whether a text is one, and not bytes of the command line that are none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_plain(url: str) -> bool:
    """Tell whether a URL has a host, at most a port that there is, and neither query nor anchor."""
    if not url.isprintable() or " " in url:
        return False
    try:
        parts = urlsplit(url)
        return bool(parts.hostname and parts.port != 0 and not parts.query and not parts.fragment)
    except ValueError:
        return False
