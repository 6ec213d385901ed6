"""What each script here does with the page it makes: print it, or write it to its file."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def print_or_write(text: str, page: Path) -> None:
    """Print a page with `--print`; without it, write the page."""
    if sys.argv[1:] == ["--print"]:
        print(text, end="")
    else:
        page.write_text(text, "utf-8")
        print(f"{page.relative_to(ROOT)} written")
