"""The token of a scraper: a file with one token, valid for GET /metrics alone.

It is checked without the token file and without the provider, so that their loss hides no metric.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
from pathlib import Path
from typing import Final

from streams.auth.token_file import TOKEN_PREFIX
from streams.errors import Refused
from streams.files.private_files import read_private
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
_MOST_BYTES: Final = 1_024
# No dots: a provider's token has some, and must never be accepted by this file.
_TOKEN: Final = re.compile(rb"[A-Za-z0-9_-]{32,512}")


class MetricsToken:
    """Checks the tokens of scrapes.

    The file is read at each scrape and nothing is cached: a token that was removed stops at once.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._logged = ""

    async def matches(self, token: str) -> bool | None:
        """Tell whether this is the token in the file; None if the file cannot be read now."""
        found = await self._digest()
        return None if found is None else hmac.compare_digest(found, _digest_of(token.encode()))

    async def is_readable(self) -> bool:
        """Tell whether the file is usable now; the log says why not."""
        return await self._digest() is not None

    async def _digest(self) -> bytes | None:
        try:
            # In a thread: the disk may be slow.
            token = await asyncio.to_thread(read_metrics_token, self._path)
        except Refused as error:
            if str(error) != self._logged:
                self._logged = str(error)
                _log.error("metrics_token_unreadable", why=str(error))
            return None
        self._logged = ""
        return _digest_of(token)


def _digest_of(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


def read_metrics_token(path: Path) -> bytes:
    """Return the token in a file.

    Raises: Refused: the file is missing, accessible to other users, or has no such token.
    """
    try:
        token = read_private(
            path, _MOST_BYTES, what="the file of the metrics token", then="replace its token"
        ).content.strip()
    except FileNotFoundError as error:
        made = f"(umask 077; openssl rand -hex 32 >{path})"
        raise Refused(f"{path} does not exist. `{made}` makes a metrics token") from error
    if token.startswith(TOKEN_PREFIX.encode()):
        # Else its revocation in the token file would not end it at /metrics.
        raise Refused(
            f"{path} has a token of a person or program, which is valid for other routes too. "
            "Make one for metrics alone: `openssl rand -hex 32`"
        )
    if _TOKEN.fullmatch(token) is None:
        raise Refused(
            f"{path} must have one token of 32 to 512 letters, digits, `_` or `-`. Make one: "
            "`openssl rand -hex 32`"
        )
    return token
