"""The file of static tokens: a hash, a name and an expiry for each.

A token has 256 random bits, so a plain SHA-256 is enough: no attacker can try them all.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import secrets
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from accountant.records.names import check_name, is_name
from accountant.strict_json import read_json
from accountant.times import from_iso, iso
from streams.errors import Refused
from streams.files.private_files import lock_against_writers, read_private, replace_private

TOKEN_PREFIX: Final = "acct_"  # noqa: S105 (it tells tokens of ours from a provider's)
MOST_TOKENS: Final = 10_000
_RANDOM_BYTES: Final = 32
_MOST_BYTES: Final = 8 * 1024 * 1024
_ID: Final = re.compile(r"t-[0-9a-f]{12}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


class Row(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """One token.

    Attributes:
        id: the argument of `token revoke`; not a secret.
        name: the token's owner.
        sha256: of the token's text, in hex digits.
        created, expires, revoked: times in the log's format; the token is valid before `expires`.
    """

    id: str
    name: str
    sha256: str
    created: str
    expires: str | None = None
    revoked: str | None = None

    def state(self, now: int) -> Literal["active", "expired", "revoked"]:
        """Return the token's state at a time in milliseconds."""
        if self.revoked is not None:
            return "revoked"
        if self.expires is not None and from_iso(self.expires) <= now:
            return "expired"
        return "active"

    def __post_init__(self) -> None:
        for time in (self.created, self.expires, self.revoked):
            if time is not None:
                from_iso(time)
        if not is_name(self.name) or not _ID.fullmatch(self.id):
            raise ValueError("id must be t- and 12 hex digits, name a name")
        if not _SHA256.fullmatch(self.sha256):
            raise ValueError("sha256 must be 64 hex digits")


class _Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: Literal[1]
    tokens: tuple[Row, ...]


class TokenFileState(NamedTuple):
    """Metadata that changes whenever the file's content does."""

    inode: int
    size: int
    modified: int
    changed: int
    mode: int


class Made(NamedTuple):
    """A new token: its text is shown once and stored nowhere."""

    token: str
    row: Row


def state_of(found: os.stat_result) -> TokenFileState:
    """Return the metadata that reveals a change of the file."""
    return TokenFileState(
        found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode
    )


def hash_of(token: str) -> bytes:
    """Return the hash that the file stores of a token."""
    return hashlib.sha256(token.encode()).digest()


def read(path: Path) -> tuple[tuple[Row, ...], TokenFileState]:
    """Return the tokens of a file, and its metadata when it was read.

    Raises: Refused: the file is missing, accessible to other users, or not a token file.
    """
    try:
        content, status = read_private(
            path, _MOST_BYTES + 1, what="the file of tokens", then="review its tokens"
        )
    except FileNotFoundError as error:
        made = f"accountant token create --name NAME --tokens {path}"
        raise Refused(
            f"{path} does not exist. If tokens were made before, restore the file from its copy: "
            f"`{made}` makes a new file with one token, and every earlier one is lost"
        ) from error
    return _parsed(path, content), state_of(status)


def _parsed(path: Path, content: bytes) -> tuple[Row, ...]:
    try:
        rows: tuple[Row, ...] = read_json(content, _Content).tokens
    except msgspec.DecodeError as error:
        raise Refused(
            f"{path} is not a file of tokens, or it is damaged: restore it from a backup"
        ) from error
    if len(content) > _MOST_BYTES or len(rows) > MOST_TOKENS:
        raise Refused(f"{path} has more than {MOST_TOKENS:,} tokens: remove expired ones")
    if len({row.id for row in rows}) != len(rows):
        raise Refused(f"{path} has two tokens with the same id: restore it from a backup")
    return rows


def create(
    path: Path, name: str, *, now: int, expires: int | None = None, another: bool = False
) -> Made:
    """Make a token, and the file where there is none.

    Args:
        now, expires: times in milliseconds since 1970.
        another: allow a second active token of the name, to rotate from one to the other.
    Raises: RequestInvalid, Refused: the name is invalid or has an active token, or the file
        cannot be used.
    """
    check_name("name", name)
    if _ID.fullmatch(name) is not None:
        raise Refused(f"{name} looks like the id of a token: choose another name")
    token = TOKEN_PREFIX + base64.urlsafe_b64encode(secrets.token_bytes(_RANDOM_BYTES)).decode(
        "ascii"
    ).rstrip("=")
    row = Row(
        id=f"t-{secrets.token_hex(6)}",
        name=name,
        sha256=hash_of(token).hex(),
        created=iso(now),
        expires=None if expires is None else iso(expires),
    )
    with lock_against_writers(path):
        rows = read(path)[0] if path.exists() else ()
        if not another and any(each.name == name and each.state(now) == "active" for each in rows):
            raise Refused(
                f"{name} has an active token. Run `accountant token revoke {name}` first, or "
                "make a second one with --another"
            )
        if len(rows) >= MOST_TOKENS:
            raise Refused(f"{path} has {MOST_TOKENS:,} tokens, the limit: remove expired ones")
        _write(path, (*rows, row))
    return Made(token, row)


def revoke(path: Path, which: str, *, now: int) -> list[Row]:
    """Revoke every active token of a name, or the one of an id; return them.

    Raises: Refused: the file cannot be used.
    """
    read(path)  # first: a mistyped path must not leave a lock file behind
    with lock_against_writers(path):
        rows = read(path)[0]
        chosen = {
            row.id: msgspec.structs.replace(row, revoked=iso(now))
            for row in rows
            if which in {row.id, row.name} and row.revoked is None
        }
        if chosen:
            _write(path, tuple(chosen.get(row.id, row) for row in rows))
    return list(chosen.values())


def _write(path: Path, rows: tuple[Row, ...]) -> None:
    content = msgspec.json.format(msgspec.json.encode(_Content(1, rows)))
    replace_private(path, content + b"\n", of_service=True)
