"""Static tokens in memory, reloaded as soon as their file changes."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Final

from accountant.times import from_iso
from streams.auth.principal import Principal
from streams.auth.token_file import Row, TokenFileState, hash_of, read, state_of
from streams.clock import SystemClock, steady
from streams.errors import Refused
from streams.http.refusal import Refusal
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
_UNREADABLE: Final = Refusal(503, "token file unreadable")
_RETRY_S: Final = 1.0


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
    """Authenticates static tokens.

    A token is looked up by a keyed hash under a secret of this process, and then compared in
    constant time: neither duration reveals anything about the file's contents.

    Args:
        principal: makes the principal of a name.
        prefix: the prefix of names; a token of another name is rejected.
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
        self._state: TokenFileState | None = None
        self._rows: dict[str, Row] | None = None
        self._known: dict[bytes, _KnownToken] = {}
        self._reading = asyncio.Lock()
        self._failed = float("-inf")
        self._logged = ""

    @property
    def count(self) -> int:
        """The number of tokens in the file, expired and revoked ones included."""
        return len(self._known)

    def load(self) -> None:
        """Read the file.

        Raises: Refused: it cannot be used.
        """
        rows, self._state = self._read()
        self._take(rows)

    async def find(self, token: str) -> Principal | Refusal:
        """Return the principal of a token."""
        if not await self.are_usable():
            return _UNREADABLE
        digest = hash_of(token)
        known = self._known.get(self._key(digest))
        if known is None or not hmac.compare_digest(known.hash, digest):
            return Refusal(401, "unknown token")
        if known.revoked:
            return Refusal(401, "revoked token")
        if known.expires is not None and known.expires <= self._now():
            return Refusal(401, "expired token")
        return known.principal or Refusal(401, "name without the prefix")

    async def are_usable(self) -> bool:
        """Tell whether the file is usable now; the log says why not."""
        try:
            changed = state_of(self._path.stat()) != self._state
        except OSError:
            changed = True
        return not changed or await self._reload()

    async def _reload(self) -> bool:
        """Reload a changed file. An unusable one rejects every token: fail closed."""
        async with self._reading:
            if steady() - self._failed < _RETRY_S:
                return False
            try:
                # In a thread: the disk may be slow, and the file long.
                rows, found = await asyncio.to_thread(self._read)
            except Refused as error:
                self._state, self._known = None, {}
                self._failed = steady()
                if str(error) != self._logged:
                    self._logged = str(error)
                    _log.error("tokens_unreadable", why=str(error))
                return False
            if found != self._state:
                self._state = found
                self._take(rows)
            return True

    def _read(self) -> tuple[tuple[Row, ...], TokenFileState]:
        return read(self._path)

    def _take(self, rows: tuple[Row, ...]) -> None:
        before, self._rows = self._rows, {row.id: row for row in rows}
        self._logged, self._failed = "", float("-inf")
        self._known = {
            self._key(known.hash): known
            for known in (_KnownToken(row, self._principal_of(row.name)) for row in rows)
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

    def _principal_of(self, name: str) -> Principal | None:
        return self._principal(name) if name.startswith(self._prefix) else None

    def _key(self, digest: bytes) -> bytes:
        return hmac.digest(self._secret, digest, "sha256")
