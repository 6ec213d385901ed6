"""No name, message, comment or page uses the private words that a stranger reads twice."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parent.parent
# The standard words: docs/reference/glossary.md. Parts of snake_case and CamelCase names count.
PRIVATE: Final = re.compile(
    r"(?<![a-z])(?i:doors?|told|whom|who asks|let in|let go|turned away|anew|of before|stands in)"
    r"(?![a-z])|(?<=[a-z])(?:Doors?|Told|Whom|Anew)(?![a-z])"
)
EXCEPTED: Final = {
    "LICENSE": "the text of the license is fixed",
    "tests/test_language.py": "names the words",
}


def private_words(text: str) -> list[str]:
    """Return the private words of a text, also those that a line break divides."""
    return [match[0] for match in PRIVATE.finditer(re.sub(r"\s+(?:# ?)?", " ", text))]


def test_no_private_word_is_in_the_repository() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], check=True, cwd=ROOT, capture_output=True, text=True
    )
    found = []
    for name in listed.stdout.split("\0"):
        path = ROOT / name
        if name in EXCEPTED or not path.is_file():
            continue
        found += [f"{name}: name has {word}" for word in private_words(name)]
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a picture
        found += [f"{name}: {word}" for word in private_words(text)]
    assert not found


def test_private_words_are_found_within_names_and_across_lines() -> None:
    for text in ("the door", "AtTheDoor", "is_told", "Told", "begin anew.", "who\n    # asks"):
        assert len(private_words(text)) == 1, text
    for text in ("outdoors", "indoor", "untold", "manewver", "who is asked", "before"):
        assert not private_words(text), text
