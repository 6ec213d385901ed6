"""The mark beside a ledger's file: how many answers were stored, and in which file.

An older copy of the answers does not know what was answered since. Drawing those questions again
would release them a second time, so a curator refuses a file that the mark does not fit.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from streams.errors import Refused
from streams.private_files import read_private, replace_private

_SUFFIX: Final = ".mark"
_MOST: Final = 4_096
_WHAT: Final = "the mark of the answers"
_THEN: Final = "every question without an answer that was granted before fails, and stays charged"
_one_at_a_time: Final = threading.Lock()  # all in a process write the same partial file


class _MarkOfAnswers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Attributes: inode: of the file; answers: how many it has at least."""

    inode: int
    answers: int


@dataclass(frozen=True, slots=True)
class StoreMark:
    """The mark of the answers in a file.

    Args:
        path: of the mark. It stays with the ledger, whichever file has the answers.
        store: the path of the answers.
        inode: of the file that is open there.
    """

    path: Path
    store: Path
    inode: int

    @classmethod
    def beside(cls, path: Path, store: Path) -> StoreMark:
        """Return the mark whose name is that of a file with `.mark` appended.

        Raises: OSError: there is no store.
        """
        return cls(path.with_name(path.name + _SUFFIX), store, store.stat().st_ino)

    def fits(self, answers: int) -> bool:
        """Tell whether the store is the one that was written last, with all that was stored.

        False without a mark, as after a restore: nobody knows which answers were read.

        Args:
            answers: in the store.
        Raises: Refused: the store is another file, or an older copy.
        """
        try:
            found = read_private(self.path, _MOST, what=_WHAT, then="start again")
        except FileNotFoundError:
            return False
        try:
            mark = msgspec.json.decode(found.content, type=_MarkOfAnswers)
        except msgspec.MsgspecError as error:
            raise Refused(f"{self.path} is no mark of answers. Remove it: {_THEN}") from error
        if mark.inode != self.inode:
            raise Refused(
                f"{self.store} is not the file in which this ledger's answers were stored last. "
                f"Put that file back. If it is lost, remove {self.path}: {_THEN}"
            )
        if answers < mark.answers:
            raise Refused(
                f"{self.store} is an older copy of the answers: it has {answers}, and "
                f"{mark.answers} or more were stored. Put the newest back. If there is none, "
                f"remove {self.path}: {_THEN}"
            )
        return True

    def write(self, answers: int) -> None:
        """Store the number of answers. Raises: Refused: it cannot be written."""
        with _one_at_a_time:
            replace_private(self.path, msgspec.json.encode(_MarkOfAnswers(self.inode, answers)))

    def is_of_file(self) -> bool:
        """Tell whether the open file is still the one at its path."""
        try:
            return self.store.stat().st_ino == self.inode
        except FileNotFoundError:
            return False
