"""Writes a folder of evidence: a new one, whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from streams.error_words import write_words
from streams.errors import Refused
from streams.files.temporary_directories import EVIDENCE, temporary_directory
from streams.files.whole_files import sync_directory

VERIFIER: Final = "verify.py"
_VERIFY: Final = Path(__file__).parents[1] / "evidence" / VERIFIER
MANIFEST: Final = "manifest.json"
WORDS: Final = "MANIFEST.txt"
_SUMS: Final = "SHA256SUMS"
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_OF_THIS_LEDGER: Final = """\
Datasets of this ledger whose guarantee does not hold, or has a condition
==========================================================================

"""
_ALL_HOLD: Final = "None: the guarantee of each dataset holds as datasets.txt states it."
NOT_COVERED: Final = """\
What no guarantee covers
========================

The guarantees in datasets.txt bound what the ledger's answers and grants show of one person. These
are outside of them:

- Readability. Whether a version of the data can be read is one bit, which the data of one person
  may decide. Analysts get no words about the cause, but they notice that no answer comes.
- Timing. How long an answer takes may depend on the data.
- Owners, and whoever else has seen the data. What they decide or tell by what they have seen is
  not noisy. A false claim of a mechanism that somebody ran outside is not noticed by the ledger.
- Releases outside of the ledger that no record charges: tables, publications, copies, backups of
  the data.
- Datasets about the same people that are not in one population: their guarantees add up.
- Erasure. When a person is erased from the data, this stays: answers that were given, what was
  charged for them, and the names of analysts, owners and members in the log, for ever.
"""


class EvidenceFolder:
    """A folder of evidence while it is written. Use `new_folder` to make one.

    Attributes:
        path: where it is until it is whole.
        files: name and SHA-256 of each file, and what it is.
        missing: what is not in it, and why.
        uncertain: datasets without a guarantee, or with a condition of it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files: list[dict[str, Any]] = []
        self.missing: list[dict[str, str]] = []
        self.uncertain: list[str] = []

    def add(self, name: str, what: str, content: bytes | Iterable[bytes]) -> None:
        """Write a file.

        Args:
            content: its bytes, or its lines without their ends.
        """
        target, digest, size = self.path / name, hashlib.sha256(), 0
        target.parent.mkdir(mode=0o700, exist_ok=True)
        pieces = [content] if isinstance(content, bytes) else (line + b"\n" for line in content)
        with os.fdopen(os.open(target, _NEW, 0o600), "wb") as file:
            for piece in pieces:
                file.write(piece)
                digest.update(piece)
                size += len(piece)
            file.flush()
            os.fsync(file.fileno())
        self.files.append({"name": name, "sha256": digest.hexdigest(), "bytes": size, "what": what})

    def drop(self, name: str) -> None:
        """Remove a file that is to be written again."""
        (self.path / name).unlink()
        self.files = [each for each in self.files if each["name"] != name]

    def lacks(self, what: str, why: str) -> None:
        """Record that something is missing, which is part of the evidence, too."""
        self.missing.append({"what": what, "why": why})

    def finish(self, facts: dict[str, Any]) -> None:
        """Write what goes with every evidence: verifier, manifest and sums.

        Args:
            facts: further fields of the manifest.
        """
        self.add("not-covered.txt", "what no guarantee covers", self._not_covered().encode())
        self.add(VERIFIER, "the stand-alone verifier, for Python 3.11 alone", _VERIFY.read_bytes())
        self.add(WORDS, "this manifest in words", self._words(facts).encode())
        found = {"type": "evidence", "version": 1, **facts}
        found |= {"files": [*self.files], "missing": self.missing}
        text = msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n"
        self.add(MANIFEST, "this manifest as JSON", text)
        sums = sorted((each["name"], each["sha256"]) for each in self.files)
        lines = "".join(f"{digest}  {name}\n" for name, digest in sums)
        self.add(_SUMS, "the SHA-256 of every other file", lines.encode())

    def _not_covered(self) -> str:
        """Return what is not guaranteed: first of this ledger, then of every ledger."""
        own = "\n".join(f"- {each}" for each in self.uncertain) or _ALL_HOLD
        return f"{_OF_THIS_LEDGER}{own}\n\n{NOT_COVERED}"

    def _words(self, facts: dict[str, Any]) -> str:
        chained = "The records are one chain of hashes for each partition."
        if not facts["chained"]:
            chained = (
                f"NOT CHAINED: these are the records of dataset {facts['dataset']} alone. Records "
                "between them may be missing, and nothing here proves that they are in a log."
            )
        lines = [
            f"Evidence of ledger {facts['ledger']}, made at {facts['made_at']}",
            "",
            chained,
            "To check it, with nothing but Python 3.11 or later:",
            "",
            "    python3 -I verify.py --key PUBLIC-KEY --ledger ID",
            "",
            "Take key, id and verify.py from where they were stored before, not from this folder:",
            "whoever makes a folder chooses what is in it. Without -I, Python would run modules",
            "that lie beside the verifier.",
            "",
            "There is",
            *(f"- {each['name']}: {each['what']}" for each in self.files),
            "",
            "There is not",
            *(f"- {each['what']}: {each['why']}" for each in self.missing),
            *([] if self.missing else ["- (nothing is missing)"]),
        ]
        return "\n".join(lines) + "\n"


@contextlib.contextmanager
def new_folder(target: Path) -> Iterator[EvidenceFolder]:
    """Yield a folder to fill; after the block it is at its place, and without one if it failed.

    Raises: Refused: something is at its place, or it cannot be written.
    """
    if target.is_symlink() or target.exists():
        raise Refused(f"{target} exists. Name a new folder: evidence never replaces anything")
    with contextlib.ExitStack() as stack:
        try:
            directory = stack.enter_context(temporary_directory(EVIDENCE, target.parent))
        except OSError as error:
            raise _not_writable(target, error) from error
        partial = Path(directory)
        yield EvidenceFolder(partial)
        for folder in {partial, *(each.parent for each in partial.rglob("*"))}:
            sync_directory(folder)
        try:
            partial.rename(target)
        except OSError as error:
            raise _not_writable(target, error) from error
        sync_directory(target.parent)


def _not_writable(target: Path, error: OSError) -> Refused:
    return Refused(f"{target} cannot be written: {write_words(error, target)}")
