"""The token of a client: where it comes from, and which server it is sent to."""

from __future__ import annotations

import os
import ssl
import stat
from collections.abc import Generator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx

from streams.errors import Refused
from streams.logs import get_logger
from streams.settings import PREFIX, Settings
from streams.settings.access import fault_of_token

_log = get_logger(__name__)
_warned_of = set[Path]()
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_MAX_BYTES: Final = 16_384


class Bearer(httpx.Auth):
    """Sends a token to one server, with each request.

    A changed file is read again: tokens of a provider last minutes, and the program that renews
    them writes the file.

    Args:
        token: the token; without it, `file` contains it.
    """

    def __init__(self, token: str | None, file: Path | None = None) -> None:
        self._token = token
        self._file = file
        self._read_at: tuple[int, int, int] | None = None

    def __repr__(self) -> str:
        return "Bearer(...)"

    @property
    def header(self) -> str:
        """The value of the header.

        Raises: Refused: the file cannot be read, or contains no token.
        """
        if self._file is not None:
            self._refresh(self._file)
        return f"Bearer {self._token}"

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add the token to a request."""
        request.headers["Authorization"] = self.header
        yield request

    def _refresh(self, file: Path) -> None:
        try:
            status = file.stat()
            stamp = status.st_ino, status.st_size, status.st_mtime_ns
            if stamp == self._read_at:
                return
            _warn_if_readable(file, status)
            with file.open("rb") as opened:
                text = opened.read(_MAX_BYTES + 1).decode("ascii", "replace").strip()
        except OSError as error:
            raise Refused(
                f"the token file {file} cannot be read: {error.strerror}. Correct the path in "
                "--token-file or ACCOUNTANT_TOKEN_FILE, or the file's permissions"
            ) from error
        fault = fault_of_token(text)
        if fault:
            raise Refused(f"the token file {file}: {fault}")
        self._token, self._read_at = text, stamp


def _warn_if_readable(file: Path, status: os.stat_result) -> None:
    """Warn once if other users may read or write a token file of this user.

    A file of another user is not checked: mounted secrets belong to root.
    """
    mode = stat.S_IMODE(status.st_mode)
    if not mode & 0o077 or status.st_uid != os.geteuid() or file in _warned_of:
        return
    _warned_of.add(file)
    _log.warning(
        "token_file_open_to_others", file=str(file), mode=f"{mode:04o}", do=f"chmod 600 {file}"
    )


def bearer_for(url: str, settings: Settings) -> Bearer | None:
    """Return the token for the server at an address, None where the settings have none.

    Raises: Refused: it would cross a network unencrypted, its file contains none, or two tokens
        are set.
    """
    if settings.token is None and settings.token_file is None:
        return None
    if settings.token is not None and settings.token_file is not None:
        raise Refused(
            f"{PREFIX}TOKEN and {PREFIX}TOKEN_FILE are both set, and may name different callers. "
            "Unset one, or choose with --token-file, in Python with token="
        )
    parts = urlsplit(url)
    is_private = parts.scheme == "https" or is_this_machine(url)
    if not is_private and not settings.token_unencrypted:
        raise Refused(
            f"a token is not sent over http to another machine ({parts.hostname}): use https://, "
            f"or set {PREFIX}TOKEN_UNENCRYPTED if the network itself is encrypted"
        )
    token = None if settings.token is None else settings.token.get_secret_value()
    made = Bearer(token, settings.token_file)
    _ = made.header  # a wrong file fails before anything is sent
    return made


def is_this_machine(url: str) -> bool:
    """Whether an address is a loopback address."""
    return (urlsplit(url).hostname or "") in _LOOPBACK


def tls_verification(url: str) -> ssl.SSLContext | bool:
    """Return the certificate authorities that a server's certificate is checked against.

    httpx reads SSL_CERT_FILE and SSL_CERT_DIR only if it also takes proxies from the environment,
    and the client takes none for this machine.
    """
    file, directory = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if urlsplit(url).scheme != "https" or not (file or directory):
        return True
    try:
        return ssl.create_default_context(cafile=file or None, capath=directory or None)
    except OSError as error:
        raise Refused(
            f"SSL_CERT_FILE or SSL_CERT_DIR cannot be used: {error.strerror or error}. "
            "Correct the path, or unset the variable"
        ) from error
