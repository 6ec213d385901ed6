"""Who has signed in with a browser: sessions in the memory of this process, each with its token."""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from litestar import Request

from streams.auth.principal import Principal

SESSION: Final = "accountant.session"
"""Where a request's scope holds the session that it came in."""
IDLE_S: Final = 8 * 3_600.0
"""After so long without a page a session is over."""
LASTS_S: Final = 12 * 3_600.0
"""After so long it is over in any case."""
MOST: Final = 2_000
"""Sessions that are kept, each with a token of 8 KiB at most; the one longest unused goes first."""
MOST_OF_ONE: Final = 20
"""Sessions of one name, so that nobody's program signs all others out."""
_BYTES: Final = 32


@dataclass(slots=True, eq=False)
class Session:
    """One browser that has signed in.

    Attributes:
        key: what the session is found by; whoever reads it has not the browser's id.
        token: looked at anew with each request, so that a session ends with it.
        began, used: by the clock of `Sessions`.
    """

    key: bytes
    principal: Principal
    token: str = field(repr=False)
    began: float
    used: float


class Sessions:
    """The sessions of a door.

    Args:
        now: seconds of a clock that only rises.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._kept: OrderedDict[bytes, Session] = OrderedDict()  # the longest unused one first

    def __len__(self) -> int:
        return len(self._kept)

    def begin(self, principal: Principal, token: str) -> str:
        """Return the id of a new session, which is kept nowhere but with the browser."""
        self._drop_idle()
        own = [each for each in self._kept.values() if each.principal.name == principal.name]
        for each in own[: max(0, len(own) - MOST_OF_ONE + 1)]:
            self.end(each)
        if len(self._kept) >= MOST:
            self._kept.popitem(last=False)
        made, now = secrets.token_urlsafe(_BYTES), self._now()
        key = _key(made)
        self._kept[key] = Session(key, principal, token, now, now)
        return made

    def find(self, given: str) -> Session | None:
        """Return the session of an id, None where there is none or where it is over."""
        self._drop_idle()
        found = self._kept.get(_key(given))
        if found is None:
            return None
        now = self._now()
        if now - found.began >= LASTS_S:
            self.end(found)
            return None
        found.used = now
        self._kept.move_to_end(found.key)
        return found

    def end(self, session: Session) -> None:
        """Forget a session and its token."""
        self._kept.pop(session.key, None)

    def _drop_idle(self) -> None:
        while self._kept:
            oldest = next(iter(self._kept.values()))
            if self._now() - oldest.used < IDLE_S:
                return
            self.end(oldest)


def _key(given: str) -> bytes:
    # A hash, so that how long a look takes tells nothing of the ids that there are.
    return hashlib.sha256(given.encode("utf-8", "replace")).digest()


def session_of(request: Request[Any, Any, Any]) -> Session | None:
    """Return the session that a request came in, None where who asks has not signed in here."""
    found = request.scope.get(SESSION)
    return found if isinstance(found, Session) else None
