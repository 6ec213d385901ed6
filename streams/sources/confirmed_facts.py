"""The names and types that were confirmed for each source, in a file beside the file of sources.

Names and types may depend on people: an integer column with one NULL becomes a double. So a change
of either stops questions until an owner has seen it. Nothing here reads a source.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from accountant.strict_json import read_json
from streams.errors import Refused
from streams.files.private_files import lock_against_writers, read_private, replace_private
from streams.sources.source_facts import ColumnFact, SourceFacts
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
CONFIRMED: Final = ".confirmed"
"""What ends the name of the file, after that of the file of sources."""
_MOST_BYTES: Final = 20_000_000
_THEN: Final = (
    "compare it with the sources; `accountant source confirm NAME` accepts at once what one has now"
)

Confirmer = Literal["owner", "check"]
"""Who confirmed: `accountant source confirm`, or the first check that found nothing."""


class Confirmed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The names and types of a source that questions may rely on.

    Attributes:
        by: a check confirms only where it finds nothing; an owner may know better.
    """

    by: Confirmer
    columns: tuple[ColumnFact, ...]

    @property
    def facts(self) -> SourceFacts:
        """Return them as those of a source."""
        return SourceFacts(columns=self.columns)


class ColumnChange(NamedTuple):
    """A column that is not the one that was confirmed.

    Attributes:
        before, now: its types in words, "" where there is no such column.
    """

    column: str
    before: str
    now: str

    def __str__(self) -> str:
        if not self.before:
            return f"`{self.column}` is new, of type {self.now}"
        if not self.now:
            return f"`{self.column}` is gone, and was of type {self.before}"
        return f"`{self.column}` was of type {self.before}, and is of type {self.now}"


class ConfirmedFacts:
    """The file: JSON by source, mode 0600, replaced as a whole. Other processes may change it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: tuple[tuple[int, ...], Mapping[str, Confirmed]] | None = None

    def get(self, name: str) -> Confirmed | None:
        """Return what is confirmed of a source.

        Raises: Refused: the file cannot be read, or is open to others.
        """
        return self._all().get(name)

    def confirm(self, name: str, facts: SourceFacts) -> None:
        """Confirm names and types for an owner, whatever was confirmed before.

        Raises: Refused: the file cannot be read or written.
        """
        with lock_against_writers(self.path):
            self._write(name, Confirmed(by="owner", columns=facts.columns))

    def confirm_first(self, name: str, facts: SourceFacts) -> Confirmed:
        """Confirm names and types that a check found clean, unless there are some.

        Returns: what is confirmed then.
        Raises: Refused: the file cannot be read or written.
        """
        with lock_against_writers(self.path):
            found = self._all().get(name)
            if found is None:
                found = Confirmed(by="check", columns=facts.columns)
                self._write(name, found)
                _log.info("source_confirmed", source=name, columns=column_words(facts))
            return found

    def _all(self) -> Mapping[str, Confirmed]:
        try:
            status = self.path.stat()
            identity = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
            if self._read is None or self._read[0] != identity:
                self._read = identity, self._decoded()
            return self._read[1]
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise Refused(f"{self.path} cannot be read: {error.strerror or error}") from error

    def _decoded(self) -> Mapping[str, Confirmed]:
        what = "the file of confirmed names and types"
        content = read_private(self.path, _MOST_BYTES + 1, what=what, then=_THEN).content
        try:
            if len(content) > _MOST_BYTES:
                raise ValueError(f"it has more than {_MOST_BYTES} bytes")
            found: dict[str, Confirmed] = read_json(content, dict[str, Confirmed])
        except (msgspec.DecodeError, ValueError) as error:
            raise Refused(
                f"{self.path} does not have its form: {error}. Put it back from a backup, or "
                "remove it and run `accountant source confirm NAME` for each source"
            ) from error
        return found

    def _write(self, name: str, confirmed: Confirmed) -> None:
        every = {**self._all(), name: confirmed}
        content = msgspec.json.format(msgspec.json.encode(every, order="sorted"), indent=1)
        replace_private(self.path, content + b"\n", of_service=True)
        self._read = None


def confirmed_path(sources: Path) -> Path:
    """Return the path of the file that belongs to a file of sources."""
    return sources.with_name(f"{sources.name}{CONFIRMED}")


def changes_of(before: SourceFacts, now: SourceFacts) -> list[ColumnChange]:
    """Return the columns whose name or type differs; their order does not matter."""
    old, new = before.by_name(), now.by_name()
    return [
        ColumnChange(name, _words(old.get(name)), _words(new.get(name)))
        for name in {**old, **new}
        if old.get(name) != new.get(name)
    ]


def column_words(facts: SourceFacts) -> str:
    """Return all names and types, for people."""
    return ", ".join(f"{column.name} {_words(column)}" for column in facts.columns)


def _words(column: ColumnFact | None) -> str:
    if column is None:
        return ""
    partial = ", which a file lacks" if column.is_partial else ""
    repeated = ", several times" if column.is_repeated and column.types else ""
    return f"{column.type_text}{repeated}{partial}"
