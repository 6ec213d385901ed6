"""Curves of Renyi divergence and their conversions."""

from __future__ import annotations

from typing import Final

from tests.accountant.reference.common import Bound, Inverse

BOUNDS: Final[dict[str, Bound | Inverse]] = {}
