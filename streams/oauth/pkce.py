"""Proof Key for Code Exchange (RFC 7636): a stolen code is useless without its verifier."""

from __future__ import annotations

import base64
import hashlib
import secrets
from typing import Final

METHOD: Final = "S256"
_BYTES: Final = 32


def new_verifier() -> str:
    """Return a new secret of 256 bits, which only this program knows until it sends the code."""
    return secrets.token_urlsafe(_BYTES)


def challenge_of(verifier: str) -> str:
    """Return the challenge of a verifier by the method S256, from which nobody can compute it."""
    digest = hashlib.sha256(verifier.encode("ascii")).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
