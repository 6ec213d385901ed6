"""Write the synchronous client of the asynchronous one: `python scripts/unasync.py`.

Each streams/client/_async/NAME.py makes a streams/client/_sync/NAME.py, the same without `async`
and `await`. What the two clients do differently is written by hand, in
streams/client/connection/connection.py.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
SOURCES: Final = sorted((ROOT / "streams" / "client" / "_async").glob("[!_]*.py"))
HEAD: Final = "# Generated from {source} by `make client`: change that file instead.\n"
RULES: Final = (
    # What the documentation says of one client alone.
    ('programs with an event loop\\."""', 'notebooks and scripts."""'),
    (
        "for programs with an event loop; use it as an `async with` context\\.",
        "for notebooks and scripts; connected once made, until `close`.",
    ),
    # What the synchronous client does not have: it is connected when it is made.
    ("        await self\\._connection\\.connect\\(\\)\\n", ""),
    ("    @awaitable_call\\n", ""),
    # What is awaited, and what is returned to be awaited.
    (r"\bawait ", ""),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bCall\[(\w+)\]", r"\1"),
    (r"\breturn Call\((.+)\)\n", r"return \1\n"),
    (r"\bT \| Awaitable\[T\]", "T"),
    (r"\bAwaitable\[(T|SessionRecord)\]", r"\1"),
    ("awaited=True", "awaited=False"),
    # Names.
    (r"\bclient\._async\b", "client._sync"),
    (
        r"\bAsync(Accountant|Administrator|Connection|Grant|Iterator|LedgerReader|MechanismSession|Owner|Questions|RequestSender)\b",
        r"\1",
    ),
    (r"\b__a(enter|exit)__\b", r"__\1__"),
    (r"\brun_async\b", "run"),
    # A loop that only yields.
    (r"for (?:answer|decision) in found:\n +yield \w+\n", "yield from found\n"),
)


def target_of(source: Path) -> Path:
    """Return the file that is generated from an asynchronous one."""
    return source.parents[1] / "_sync" / source.name


def generated(source: Path) -> str:
    """Return the text of the synchronous file for an asynchronous one."""
    text = source.read_text("utf-8")
    for pattern, instead in RULES:
        text = re.sub(pattern, instead, text)
    for command in (["check", "--quiet", "--fix", "--select", "I,F401"], ["format", "--quiet"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", target_of(source), "-"]
        text = subprocess.run(  # noqa: S603 - our own command
            ruff, input=text, capture_output=True, text=True, check=True, cwd=ROOT
        ).stdout
    return HEAD.format(source=f"_async/{source.name}") + text


if __name__ == "__main__":
    for each in SOURCES:
        target_of(each).write_text(generated(each), "utf-8")
