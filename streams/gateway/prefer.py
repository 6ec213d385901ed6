"""How long a caller wants to wait: `Prefer: wait=5` (RFC 7240)."""

from __future__ import annotations

import re
from typing import Final

DEFAULT_WAIT_S: Final = 5
MOST_WAIT_S: Final = 30
_WAIT = re.compile(r'(?:^|[,;\s])wait\s*=\s*"?([0-9]{1,9})"?\s*(?=$|[,;])', re.IGNORECASE)


def wait_of(prefer: str | None) -> int:
    """Return the seconds to wait, at most 30; 5 where the header says nothing of it."""
    match = _WAIT.search(prefer or "")
    return DEFAULT_WAIT_S if match is None else min(int(match[1]), MOST_WAIT_S)
