"""Sessions of browsers that have signed in, in memory, each with its token."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from litestar import Request

from streams.auth.principal import Principal

SESSION: Final = "accountant.session"
"""The key of a request's scope for its session."""
IDLE_S: Final = 8 * 3_600.0
"""A session without requests ends after this time."""
LIFETIME_S: Final = 12 * 3_600.0
"""A session ends after this time in any case."""
MAX_SESSIONS: Final = 2_000
"""Sessions in memory, with at most two tokens of 8 KiB; the least recently used is evicted."""
MAX_SESSIONS_OF_ONE: Final = 20
"""Sessions of one name, so that one program cannot sign everybody else out."""
_BYTES: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderGrant:
    """What the provider gave a session besides its access token.

    Attributes:
        refresh_token: empty if the provider gave none; the session then ends with its token.
        subject: the claim `sub` of the access token, which a refreshed one must repeat.
        refresh_at, expires_at: monotonic seconds.
    """

    refresh_token: str = field(repr=False)
    subject: object = field(repr=False)
    refresh_at: float
    expires_at: float


@dataclass(slots=True, eq=False)
class BrowserSession:
    """One browser that has signed in.

    Attributes:
        key: a hash of the browser's id, which cannot be computed back from it.
        token: checked again with each request, so that the session ends with it.
        began, used: monotonic seconds.
        grant: None if the token was pasted.
        refreshing: the refresh under way, if any.
    """

    key: bytes
    principal: Principal
    token: str = field(repr=False)
    began: float
    used: float
    grant: ProviderGrant | None = None
    refreshing: asyncio.Task[None] | None = field(default=None, repr=False)


class BrowserSessions:
    """The sessions of a server.

    Args:
        now: monotonic seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._sessions: OrderedDict[bytes, BrowserSession] = (
            OrderedDict()
        )  # least recently used first

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, principal: Principal, token: str, grant: ProviderGrant | None = None) -> str:
        """Return the id of a new session; only the browser stores it."""
        self._drop_idle()
        own = [each for each in self._sessions.values() if each.principal.name == principal.name]
        for each in own[: max(0, len(own) - MAX_SESSIONS_OF_ONE + 1)]:
            self.end(each)
        if len(self._sessions) >= MAX_SESSIONS:
            self._sessions.popitem(last=False)
        made, now = secrets.token_urlsafe(_BYTES), self._now()
        key = _key(made)
        self._sessions[key] = BrowserSession(key, principal, token, now, now, grant)
        return made

    def find(self, session_id: str) -> BrowserSession | None:
        """Return the session with an id, None if there is none or it has ended."""
        self._drop_idle()
        found = self._sessions.get(_key(session_id))
        if found is None:
            return None
        now = self._now()
        if now - found.began >= LIFETIME_S:
            self.end(found)
            return None
        found.used = now
        self._sessions.move_to_end(found.key)
        return found

    def has(self, session: BrowserSession) -> bool:
        """Tell whether a session has not ended."""
        return self._sessions.get(session.key) is session

    def end(self, session: BrowserSession) -> None:
        """Forget a session and its tokens."""
        self.end_key(session.key)

    def end_key(self, key: bytes) -> None:
        """Forget the session with a key, if there is one."""
        self._sessions.pop(key, None)

    def _drop_idle(self) -> None:
        while self._sessions:
            oldest = next(iter(self._sessions.values()))
            if self._now() - oldest.used < IDLE_S:
                return
            self.end(oldest)


def _key(session_id: str) -> bytes:
    # A hash, so that the duration of a look-up reveals nothing about existing ids.
    return hashlib.sha256(session_id.encode("utf-8", "replace")).digest()


def session_of(request: Request[Any, Any, Any]) -> BrowserSession | None:
    """Return a request's session, None if its caller has not signed in by a browser."""
    found = request.scope.get(SESSION)
    return found if isinstance(found, BrowserSession) else None
