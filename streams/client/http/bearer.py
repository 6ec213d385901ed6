"""The token of a client: where it comes from, and which server it is sent to."""

from __future__ import annotations

import os
import ssl
from collections.abc import Generator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx

from streams.address import LOOPBACK_HOSTS
from streams.client.http.login_auth import find_login_auth
from streams.client.http.token_auth import TokenAuth
from streams.errors import Refused
from streams.files.private_files import check_trusted, read_private
from streams.settings import PREFIX, Settings
from streams.settings.access import fault_of_token

_MAX_BYTES: Final = 16_384


class Bearer(TokenAuth):
    """Sends a token to one server, with each request.

    A changed file is read again: tokens of a provider last minutes, and the program that renews
    them writes the file.

    Args:
        token: the token; without it, `file` contains it.
    """

    remedy = "Ask an administrator, or your identity provider, for a new one"

    def __init__(self, token: str | None, file: Path | None = None) -> None:
        is_set = token is not None and os.environ.get(f"{PREFIX}TOKEN", "").strip() == token
        setting = f"{PREFIX}TOKEN" if is_set else "the argument token="
        self.source = setting if file is None else f"the file {file}"
        self._token = token
        self._file = file
        self._read_at: tuple[int, int, int, int] | None = None

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
            stamp = status.st_ino, status.st_size, status.st_mtime_ns, status.st_mode
            if stamp == self._read_at:
                return
            content = read_private(
                file, _MAX_BYTES + 1, what="the file of a token", then="replace its token"
            ).content
            text = content.decode("ascii", "replace").strip()
        except OSError as error:
            raise Refused(
                f"the token file {file} cannot be read: {error.strerror}. Correct the path in "
                "--token-file or ACCOUNTANT_TOKEN_FILE, or the file's permissions"
            ) from error
        fault = fault_of_token(text)
        if fault:
            raise Refused(f"the token file {file}: {fault}")
        self._token, self._read_at = text, stamp


def bearer_for(url: str, settings: Settings) -> TokenAuth | None:
    """Return the token for the server at an address, None without one.

    A token in the settings comes first, then the login of exactly this server.

    Raises: Refused: it would cross a network unencrypted, its file contains none or is unsafe, or
        two tokens are set.
    """
    if settings.token is None and settings.token_file is None:
        return find_login_auth(url)
    if settings.token is not None and settings.token_file is not None:
        raise Refused(
            f"{PREFIX}TOKEN and {PREFIX}TOKEN_FILE are both set, and may name different callers. "
            "Unset one, or choose with --token-file, in Python with token="
        )
    if not may_send_token(url, settings):
        host = urlsplit(url).hostname
        raise Refused(
            f"a token is not sent over http to another machine ({host}): use https://, "
            f"or set {PREFIX}TOKEN_UNENCRYPTED if the network itself is encrypted"
        )
    token = None if settings.token is None else settings.token.get_secret_value()
    made = Bearer(token, settings.token_file)
    _ = made.header  # a wrong file fails before anything is sent
    return made


def may_send_token(url: str, settings: Settings) -> bool:
    """Tell whether a token may be sent to an address: it must cross no network unencrypted."""
    is_private = urlsplit(url).scheme == "https" or is_this_machine(url)
    return is_private or settings.token_unencrypted


def is_this_machine(url: str) -> bool:
    """Whether an address is a loopback address."""
    return (urlsplit(url).hostname or "") in LOOPBACK_HOSTS


def tls_verification(url: str) -> ssl.SSLContext | bool:
    """Return the certificate authorities that a server's certificate is checked against.

    httpx reads SSL_CERT_FILE and SSL_CERT_DIR only if it also takes proxies from the environment,
    and the client takes none for this machine.
    """
    if urlsplit(url).scheme != "https":
        # Nothing is checked, and to read all authorities would take a fifth of a command's time.
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    file, directory = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if not (file or directory):
        return True
    try:
        if file:
            check_trusted(Path(file), secret=False, then="review its certificates")
        return ssl.create_default_context(cafile=file or None, capath=directory or None)
    except OSError as error:
        raise Refused(
            f"SSL_CERT_FILE or SSL_CERT_DIR cannot be used: {error.strerror or error}. "
            "Correct the path, or unset the variable"
        ) from error
