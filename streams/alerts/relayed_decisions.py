"""How far a webhook has an embedded ledger's alerts: a file next to the ledger."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import IO, Final, NamedTuple

from streams.files.private_files import make_private
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)

_MOST: Final = 2_000
_LEFT: Final = 1_000


class RelayedDecision(NamedTuple):
    """A decision up to which the alerts are delivered.

    Attributes:
        number: in the log.
        branch: how many rollbacks the log had accepted up to there.
        head: its hash.
    """

    number: int
    branch: int
    head: str

    @property
    def line(self) -> bytes:
        """The decision as the file has it."""
        return f"{self.number} {self.branch} {self.head}\n".encode()


class RelayedDecisions:
    """Remembers the last relayed decisions over restarts, if the disk allows.

    Several are stored, not the last alone: an older copy of the ledger has some of them, and
    continues after the newest of these. If the file is lost or cannot be written, alerts are
    delivered again under the same ids. The user of this class holds the ledger's lock.

    Args:
        path: of the ledger.
        ledger: hash of the ledger's decision 0. It detects a file that another ledger with the
            same path has left.

    Attributes:
        last: the decision that was added last, None without one.
    """

    def __init__(self, path: Path, ledger: str) -> None:
        self._path = path.with_name(path.name + ".alerts")
        self._ledger = ledger
        self._file: IO[bytes] | None = None
        self._known = self._read()
        self.last = self._known[-1] if self._known else None

    def _read(self) -> list[RelayedDecision]:
        """Return the decisions in the file; none if the file is not of this ledger."""
        try:
            first, *lines = self._path.read_bytes().split(b"\n")
        except OSError:
            return []
        if first != self._ledger.encode():
            return []
        # A crash may have cut off the text after the last newline.
        found = [_decision_of(line) for line in lines[:-1]]
        return [each for each in found if each is not None]

    def newest_in(self, head_at: Callable[[int], str | None]) -> RelayedDecision | None:
        """Return the newest decision that a log has; None without one.

        Args:
            head_at: returns the hash of the log's decision of a number, None if it has none.
        """
        fitting = (each for each in reversed(self._known) if head_at(each.number) == each.head)
        return next(fitting, None)

    def add(self, decision: RelayedDecision) -> None:
        """Remember that the alerts up to a decision are delivered. Never raises."""
        self._known.append(decision)
        self.last = decision
        try:
            if self._file is None:
                self._file = self._begin()
            else:
                self._file.write(decision.line)
                self._file.flush()
        except OSError as error:
            _log.warning("alerts_not_remembered", why=str(error), then="delivered again")
            self.close()

    def _begin(self) -> IO[bytes]:
        """Write the file again, without what is old, and return it."""
        if len(self._known) > _MOST:
            del self._known[:-_LEFT]
        new = self._path.with_name(self._path.name + ".new")
        new.unlink(missing_ok=True)
        make_private(new)
        lines = [each.line for each in self._known]
        new.write_bytes(b"".join([f"{self._ledger}\n".encode(), *lines]))
        new.replace(self._path)
        return self._path.open("ab")

    def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except OSError as error:
                _log.warning("alerts_not_remembered", why=str(error))


def _decision_of(line: bytes) -> RelayedDecision | None:
    """Return the decision in a line; None for a line of another form."""
    try:
        number, branch, head = line.decode("ascii").split(" ")
        return RelayedDecision(int(number), int(branch), head)
    except ValueError:
        return None
