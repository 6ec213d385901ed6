"""The URL of a ledger's file, for a command that a message prints."""

from __future__ import annotations

import shlex
from pathlib import Path


def url_option(path: Path) -> str:
    """Return the option `--url` of a ledger's file, quoted for a shell."""
    return f"--url {shlex.quote(f'sqlite:///{path.absolute()}')}"
