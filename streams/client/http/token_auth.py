"""The token that a client sends: what every kind of it says about itself."""

from __future__ import annotations

import httpx


class TokenAuth(httpx.Auth):
    """Adds a token to each request of one client.

    Attributes:
        source: where the token comes from.
        remedy: what to do if the server rejects it.
    """

    source: str
    remedy: str
