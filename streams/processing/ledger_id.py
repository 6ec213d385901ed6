"""The id that tells a new ledger from every other one with the same settings."""

from __future__ import annotations

import secrets


def new_ledger_id() -> str:
    """Return 128 random bits as hexadecimal text."""
    return secrets.token_hex(16)
