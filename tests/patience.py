"""How long a test waits for what it expects."""

from __future__ import annotations

from typing import Final

PATIENCE_S: Final = 120.0
"""The longest wait for something that must come about.

No time decides whether a test passes: only one that fails waits for so long. The bound therefore
suits a machine that is ten times slower than usual.
"""
