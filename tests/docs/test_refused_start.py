"""The guides to refused starts, wrong clocks and errors quote messages of the program."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GUIDES = [
    *(ROOT / "docs" / "how-to" / name for name in ("refused-start.md", "wrong-clock.md")),
    ROOT / "docs" / "reference" / "troubleshooting.md",
]
# What stands for a value of the message.
VALUE = re.compile(r"\b(?:HOST:PORT|User:NAME|[NMXY])\b")


@cache
def quotes() -> list[str]:
    """Return the messages that the guides quote."""
    lines = [line for guide in GUIDES for line in guide.read_text(encoding="utf-8").splitlines()]
    rows = [line.split("|")[1] for line in lines if line.startswith("| `")]
    rows += [line for line in lines if line.startswith("### `")]
    return sorted({text for row in rows for text in re.findall(r"`([^`]+)`", row)})


@cache
def source() -> str:
    """Return the code of the program, with texts of several lines joined."""
    files = [p for top in ("accountant", "streams") for p in sorted((ROOT / top).rglob("*.py"))]
    code = "\n".join(path.read_text(encoding="utf-8") for path in files)
    return re.sub(r"\s+", " ", re.sub(r"[\"']\s*\n\s*f?[\"']", "", code))


def is_in_the_source(quoted: str) -> bool:
    parts = [re.escape(part) for part in VALUE.split(quoted.replace("...", "N"))]
    return re.search(r"[^\"]{0,60}".join(parts), source()) is not None


def test_a_quoted_message_is_one_of_the_program() -> None:
    wrong = [quoted for quoted in quotes() if not is_in_the_source(quoted)]
    assert not wrong, "\n".join(wrong)


def test_a_message_that_the_program_does_not_have_is_noticed() -> None:
    assert len(quotes()) > 40
    assert not is_in_the_source("the moon has N partitions")
