"""Sign-ins that wait for the provider: each belongs to one browser, and is used once."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from streams.oauth.pkce import new_verifier

PATIENCE_S: Final = 600.0
"""Seconds in which a person can sign in at the provider."""
MAX_PENDING: Final = 10_000
"""Sign-ins in memory, of at most 3 KiB each; the oldest is dropped."""
_BYTES: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSignIn:
    """One sign-in between its start and the provider's answer.

    Attributes:
        state: names it in the provider's answer.
        nonce: the provider repeats it in the ID token.
        verifier: the secret of PKCE; only this server knows it.
        target: the page to show afterwards.
        replaces: the key of the session that the browser has now, None without one.
        browser: a hash of the browser's cookie.
        began: monotonic seconds.
    """

    state: str = field(repr=False)
    nonce: str = field(repr=False)
    verifier: str = field(repr=False)
    target: str
    replaces: bytes | None = field(repr=False)
    browser: bytes = field(repr=False)
    began: float


class PendingSignIns:
    """The pending sign-ins of a server.

    Args:
        now: monotonic seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._pending: OrderedDict[bytes, PendingSignIn] = OrderedDict()  # oldest first

    def __len__(self) -> int:
        return len(self._pending)

    def begin(self, cookie: str, target: str, replaces: bytes | None) -> PendingSignIn:
        """Return a new sign-in of the browser with a cookie."""
        self._drop_late()
        if len(self._pending) >= MAX_PENDING:
            self._pending.popitem(last=False)
        made = PendingSignIn(
            state=secrets.token_urlsafe(_BYTES),
            nonce=secrets.token_urlsafe(_BYTES),
            verifier=new_verifier(),
            target=target,
            replaces=replaces,
            browser=_hash(cookie),
            began=self._now(),
        )
        self._pending[_hash(made.state)] = made
        return made

    def take(self, cookie: str, state: str) -> PendingSignIn | None:
        """Return and remove the sign-in with a state, None unless this browser began it."""
        self._drop_late()
        key = _hash(state)
        found = self._pending.get(key)
        # The state alone would not do: an attacker could send a victim the end of a sign-in that
        # the attacker began.
        if found is None or not hmac.compare_digest(found.browser, _hash(cookie)):
            return None
        del self._pending[key]
        return found

    def _drop_late(self) -> None:
        while self._pending:
            key, oldest = next(iter(self._pending.items()))
            if self._now() - oldest.began < PATIENCE_S:
                return
            del self._pending[key]


def _hash(text: str) -> bytes:
    # A hash, so that the duration of a look-up reveals nothing about existing states.
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()
