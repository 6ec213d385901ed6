"""The mark that earlier versions wrote beside a ledger's file; read once, where no head is stored.

It has the inode of the store and the number of its answers. A store that it does not fit is another
one or an older copy, and its answers are not carried over.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from streams.errors import Refused
from streams.files.private_files import read_private

SUFFIX: Final = ".mark"
_MOST: Final = 4_096
_WHAT: Final = "the mark of the answers"
_THEN: Final = "every question without an answer that was granted before fails, and stays charged"


class _MarkOfAnswers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Attributes: inode: of the file; answers: how many it has at least."""

    inode: int
    answers: int


def fits_mark(path: Path, store: Path, answers: int) -> bool:
    """Tell whether a store is the one that was written last, with all that was stored.

    False without a mark, as after a restore: nobody knows which answers were read.

    Args:
        answers: in the store.
    Raises: Refused: the store is another file, or an older copy.
    """
    try:
        found = read_private(path, _MOST, what=_WHAT, then="start again")
    except FileNotFoundError:
        return False
    try:
        mark = msgspec.json.decode(found.content, type=_MarkOfAnswers)
    except msgspec.MsgspecError as error:
        raise Refused(f"{path} is no mark of answers. Remove it: {_THEN}") from error
    if mark.inode != store.stat().st_ino:
        raise Refused(
            f"{store} is not the file in which this ledger's answers were stored last. Put that "
            f"file back. If it is lost, remove {path}: {_THEN}"
        )
    if answers < mark.answers:
        raise Refused(
            f"{store} is an older copy of the answers: it has {answers}, and {mark.answers} or "
            f"more were stored. Put the newest back. If there is none, remove {path}: {_THEN}"
        )
    return True
