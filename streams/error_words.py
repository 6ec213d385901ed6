"""Words for errors, in messages that people read: libraries name their classes for programs."""

from __future__ import annotations

import errno
import re
from pathlib import Path
from typing import Final

from accountant.errors import BudgetError

_WORDS: Final = {
    "builtins.TimeoutError": "no answer came in time",
    "builtins.MemoryError": "there is no memory left",
    "builtins.KeyboardInterrupt": "it was interrupted",
    "builtins.SystemExit": "its process ends",
    "builtins.OSError": "the system refused it",
    "asyncio.exceptions.CancelledError": "it was cancelled",
    "aiokafka.errors.KafkaConnectionError": "there is no connection",
    "aiokafka.errors.KafkaTimeoutError": "no answer came in time",
    "aiokafka.errors.RequestTimedOutError": "no answer came in time",
    "httpx.TimeoutException": "no answer came in time",
    "httpx.ConnectError": "there is no connection",
    "httpx.NetworkError": "the connection broke",
    "httpx.ProtocolError": "the answer is not HTTP",
    "httpx.InvalidURL": "the address is not valid",
    "httpx.HTTPError": "the request failed",
    "apsw.FullError": "the disk is full",
    "apsw.BusyError": "another process uses it",
    "apsw.LockedError": "another process uses it",
    "apsw.CorruptError": "the file is damaged",
    "apsw.NotADBError": "the file is no database",
    "apsw.IOError": "the disk failed",
    "apsw.ReadOnlyError": "the file cannot be written",
    "apsw.CantOpenError": "the file cannot be opened",
    "apsw.Error": "the database failed",
}
_NUMBER: Final = re.compile(r"^\[Error -?\d+\] ")
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z]+|[a-z]+|\d+")
_SUFFIX: Final = re.compile(r"(Error|Exception|Warning)$")


def words_of(error: BaseException) -> str:
    """Return what an error means, and what it says. An error of this program says it itself."""
    said = own_text(error)
    if isinstance(error, BudgetError) and said:
        return said
    meaning = meaning_of(error)
    has_more = said and not (isinstance(error, OSError) and error.strerror)
    return f"{meaning}: {said}" if has_more else meaning


def meaning_of(error: BaseException) -> str:
    """Return what an error means, without its own text, which may have a secret in it."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    kind = type(error)
    for each in kind.__mro__[:-1]:
        found = _WORDS.get(f"{each.__module__}.{each.__qualname__}")
        if found is not None:
            return found
    if kind.__module__ == "builtins":  # a defect of this program: whoever mends it needs the name
        return f"an unexpected {kind.__name__}"
    words = _WORD.findall(_SUFFIX.sub("", kind.__name__))
    return " ".join(each.lower() for each in words) or "it failed"


def write_words(error: BaseException, path: Path) -> str:
    """Return why a file could not be written; of a full disk, which directory has no space."""
    if _is_full(error):
        place = path.absolute()
        return f"the disk is full: {place.parent} has no space for {place.name}"
    return words_of(error)


def _is_full(error: BaseException) -> bool:
    kind = f"{type(error).__module__}.{type(error).__qualname__}"
    if isinstance(error, OSError):
        return error.errno in {errno.ENOSPC, errno.EDQUOT}
    return kind == "apsw.FullError" or getattr(error, "sqlite_errorname", "") == "SQLITE_FULL"


def own_text(error: BaseException) -> str:
    """Return an error's own text, without the name of its class that some libraries put first."""
    text = _NUMBER.sub("", str(error)).removeprefix(type(error).__name__)
    return text.removeprefix(":").strip()
