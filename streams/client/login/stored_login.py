"""The logins of this user: a file for each server, which its user alone can read.

A login belongs to one URL. It is looked up by exactly that URL, so its token reaches no other
server, port or path.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import quote, unquote

import httpx
import msgspec

from accountant.strict_json import read_json
from streams.address import AddressInvalid, is_private_url, ledger_url
from streams.error_words import write_words
from streams.errors import Refused
from streams.files.private_files import (
    lock_against_writers,
    read_private,
    replace_private,
    state_directory,
)
from streams.files.whole_files import sync_directory

_DIRECTORY: Final = "logins"
_END: Final = ".json"
_MOST_BYTES: Final = 128 * 1024
_LONGEST_MARGIN_MS: Final = 60_000


class StoredLogin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one sign-in left behind. Its text never appears in a message or log.

    Attributes:
        url: the server that the token was made for, see `server_url`.
        token_endpoint, revocation_endpoint: of the provider; None if it revokes nothing.
        more: fields that the provider needs again at each refresh, such as `resource`.
        refresh_token: empty if the provider issued none.
        issued, expires: milliseconds since 1970; `expires` is None if the provider does not say.
    """

    version: Literal[1]
    url: str
    issuer: str
    client_id: str
    token_endpoint: str
    revocation_endpoint: str | None
    more: dict[str, str]
    access_token: str
    refresh_token: str
    issued: int
    expires: int | None

    def __repr__(self) -> str:
        return f"StoredLogin(url={self.url!r}, ...)"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("url", self.url)]

    def is_valid(self, now: int) -> bool:
        """Whether the access token has not expired, as far as the provider has said."""
        return self.expires is None or now < self.expires

    def needs_refresh(self, now: int) -> bool:
        """Whether the access token expires within a minute, or a quarter of its lifetime."""
        if self.expires is None:
            return False
        margin = min(_LONGEST_MARGIN_MS, max(0, self.expires - self.issued) // 4)
        return now >= self.expires - margin


def server_url(url: str) -> str:
    """Return the form of a server's URL by which its login is found.

    Scheme and host are in lower case, a scheme's usual port and a final slash are left out.

    Raises:
        AddressInvalid: it is no server, or one that is reached unencrypted.
    """
    found = ledger_url(url)
    if found.kind != "http":
        raise AddressInvalid(f"url must be a server to sign in to: https://HOST, got {url[:80]}")
    if not is_private_url(found.target):
        raise AddressInvalid(
            "url must be https://HOST, or http:// on this machine: a token is not sent "
            f"unencrypted, got {url[:80]}"
        )
    try:
        return plain_url(httpx.URL(found.target))
    except (httpx.InvalidURL, UnicodeError) as error:
        raise AddressInvalid(f"url must be https://HOST, got {url[:80]!a}") from error


def plain_url(url: httpx.URL) -> str:
    """Return scheme, host, port and path of a URL, as requests are sent to it."""
    return f"{url.scheme}://{url.netloc.decode('ascii')}{url.path}".rstrip("/")


def login_file(url: str) -> Path:
    """Return the file of a server's login, whether it exists or not.

    Raises: AddressInvalid, Refused: see `server_url`; or the user has no home directory.
    """
    return _directory() / f"{quote(server_url(url), safe='')}{_END}"


def _directory() -> Path:
    found = state_directory(_DIRECTORY)
    if found is None:
        raise Refused("this user has no home directory: set XDG_STATE_HOME to a directory")
    return found


def find_login(url: str) -> StoredLogin | None:
    """Return the login of exactly this server, None without one.

    Raises: Refused: its file or directory is unsafe or damaged.
    """
    file, url = login_file(url), server_url(url)
    again = f"run `accountant login {url}` again"
    try:
        _check_directory(file.parent)
        content = read_private(
            file, _MOST_BYTES, what="a login's file", then=again, own_only=True
        ).content
    except FileNotFoundError:
        return None
    try:
        found: StoredLogin | None = read_json(content, StoredLogin)
    except msgspec.DecodeError:
        found = None  # no message repeats its content
    if found is None or found.url != url:  # a renamed file must not send a token elsewhere
        raise Refused(f"{file} is not the login of {url}, or it is damaged. Remove it, and {again}")
    return found


def _check_directory(folder: Path) -> None:
    """Check that only this user can use the directory of logins.

    Raises: FileNotFoundError; Refused.
    """
    status = folder.stat()
    if status.st_uid != os.geteuid():
        raise Refused(f"{folder} belongs to another user. Remove it, and sign in again")
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise Refused(
            f"{folder} is accessible to other users. Run `chmod 700 {folder}`, and "
            "`accountant logout --all`"
        )


def store_login(login: StoredLogin) -> None:
    """Store a login in place of an earlier one of the same server.

    Raises: Refused: the file cannot be written.
    """
    file = login_file(login.url)
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_directory(file.parent)
        if file.is_symlink():  # replacing a file follows links
            file.unlink()
    except OSError as error:
        raise Refused(f"{file} cannot be written: {write_words(error, file)}") from error
    replace_private(file, msgspec.json.format(msgspec.json.encode(login)) + b"\n")


@contextlib.contextmanager
def lock_login(url: str) -> Iterator[None]:
    """Lock a stored login against other processes that refresh or remove it.

    Raises: Refused: it cannot be locked, or another process has it too long.
    """
    with lock_against_writers(login_file(url)):
        yield


def delete_login(url: str) -> bool:
    """Delete the file of a login; return whether there was one. The caller has `lock_login`.

    Raises: Refused: it cannot be deleted.
    """
    file = login_file(url)
    try:
        file.unlink()
        sync_directory(file.parent)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise Refused(f"{file} cannot be removed: {error.strerror or error}") from error
    return True


def has_login(url: str) -> bool:
    """Whether there is a file for a server's login, usable or not."""
    file = login_file(url)
    return file.is_symlink() or file.exists()


def stored_urls() -> list[str]:
    """Return the servers that this user is signed in to.

    Raises: Refused: the user has no home directory.
    """
    names = {unquote(file.name.removesuffix(_END)) for file in _directory().glob(f"*{_END}")}
    return sorted(filter(_is_server_url, names))


def _is_server_url(text: str) -> bool:
    """Whether a text is a server's URL in the form by which its login is found."""
    try:
        return server_url(text) == text
    except AddressInvalid:
        return False
