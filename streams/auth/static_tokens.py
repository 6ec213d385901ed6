"""The static tokens as a door knows them: read again as soon as their file has changed."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Final

from accountant.times import from_iso
from streams.auth.principal import Principal
from streams.auth.token_file import Row, TokenFileState, hash_of, read, seen
from streams.clock import SystemClock, steady
from streams.errors import Refused
from streams.http.refusal import Refusal
from streams.logs import get_logger

_log = get_logger(__name__)
_UNREADABLE: Final = Refusal(503, "token file unreadable")
_AGAIN_S: Final = 1.0


def wall_ms() -> int:
    """Return this machine's time, in milliseconds since 1970."""
    return SystemClock().now()


class _KnownToken:
    """One token in memory."""

    def __init__(self, row: Row, principal: Principal | None) -> None:
        self.hash = bytes.fromhex(row.sha256)
        self.expires = None if row.expires is None else from_iso(row.expires)
        self.revoked = row.revoked is not None
        self.principal = principal


class StaticTokens:
    """Tells whose token a text is.

    Tokens are found by a keyed hash under a secret of this process, and only then compared, in
    constant time: how long either takes tells nothing about what is in the file.

    Args:
        principal: what a name is to this door.
        prefix: what names begin with; a token of another name lets nobody in.
    """

    def __init__(
        self,
        path: Path,
        principal: Callable[[str], Principal],
        *,
        prefix: str = "",
        now: Callable[[], int] = wall_ms,
    ) -> None:
        self._path = path
        self._principal = principal
        self._prefix = prefix
        self._now = now
        self._secret = secrets.token_bytes(32)
        self._seen: TokenFileState | None = None
        self._rows: dict[str, Row] | None = None
        self._known: dict[bytes, _KnownToken] = {}
        self._reading = asyncio.Lock()
        self._failed = float("-inf")
        self._told = ""

    @property
    def count(self) -> int:
        """How many tokens the file holds, whatever they are worth."""
        return len(self._known)

    def load(self) -> None:
        """Read the file.

        Raises: Refused: it cannot be used.
        """
        rows, self._seen = self._read()
        self._take(rows)

    async def find(self, token: str) -> Principal | Refusal:
        """Return whose token a text is."""
        if not await self.are_known():
            return _UNREADABLE
        digest = hash_of(token)
        known = self._known.get(self._place(digest))
        if known is None or not hmac.compare_digest(known.hash, digest):
            return Refusal(401, "unknown token")
        if known.revoked:
            return Refusal(401, "revoked token")
        if known.expires is not None and known.expires <= self._now():
            return Refusal(401, "expired token")
        return known.principal or Refusal(401, "name without the prefix")

    async def are_known(self) -> bool:
        """Tell whether the file, as it is now, can be used; the log says why not."""
        try:
            changed = seen(self._path.stat()) != self._seen
        except OSError:
            changed = True
        return not changed or await self._is_read()

    async def _is_read(self) -> bool:
        """Read the file that has changed; one that cannot be used lets nobody in."""
        async with self._reading:
            if steady() - self._failed < _AGAIN_S:
                return False
            try:
                # Beside the loop: the disk may be slow, and the file long.
                rows, found = await asyncio.to_thread(self._read)
            except Refused as error:
                self._seen, self._known = None, {}
                self._failed = steady()
                if str(error) != self._told:
                    self._told = str(error)
                    _log.error("tokens_unreadable", why=str(error))
                return False
            if found != self._seen:
                self._seen = found
                self._take(rows)
            return True

    def _read(self) -> tuple[tuple[Row, ...], TokenFileState]:
        return read(self._path)

    def _take(self, rows: tuple[Row, ...]) -> None:
        before, self._rows = self._rows, {row.id: row for row in rows}
        self._told, self._failed = "", float("-inf")
        self._known = {
            self._place(known.hash): known
            for known in (_KnownToken(row, self._of(row.name)) for row in rows)
        }
        left_out = sum(known.principal is None for known in self._known.values())
        if left_out:
            _log.warning("tokens_without_prefix", count=left_out, prefix=self._prefix)
        if before is None:
            return
        for row in rows:
            old = before.get(row.id)
            if old is None:
                _log.info("token_made", id=row.id, name=row.name, expires=row.expires)
            elif old.revoked is None and row.revoked is not None:
                _log.info("token_revoked", id=row.id, name=row.name)
        for gone in before.keys() - self._rows.keys():
            _log.warning("token_gone", id=gone, name=before[gone].name)

    def _of(self, name: str) -> Principal | None:
        return self._principal(name) if name.startswith(self._prefix) else None

    def _place(self, digest: bytes) -> bytes:
        return hmac.digest(self._secret, digest, "sha256")
