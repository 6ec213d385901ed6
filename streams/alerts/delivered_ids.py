"""Which alerts of an embedded ledger a webhook has taken: a small file beside the ledger's."""

from __future__ import annotations

from pathlib import Path
from typing import IO

from accountant.views.datasets import Alert, SeenAlerts
from streams.logs import get_logger
from streams.private_files import make_private

_log = get_logger(__name__)


class Delivered(SeenAlerts):
    """Remembers alerts over restarts, as far as the disk lets it.

    A cache of what was told, never of what was spent: without it, or where it cannot be
    written, an alert is given again, under the same id. Whoever uses it holds the ledger's lock.

    Args:
        path: of the ledger.
        head: hash of the ledger's decision 0. A file of another ledger, that had this path
            before, says nothing about this one.
    """

    def __init__(self, path: Path, head: str) -> None:
        self._path = path.with_name(path.name + ".alerts")
        self._head = head
        self._file: IO[bytes] | None = None
        super().__init__(self._read())

    def _read(self) -> set[str]:
        """Return the ids in the file, empty where there are none for this ledger."""
        try:
            first, *lines = self._path.read_bytes().split(b"\n")
        except OSError:
            return set()
        # What follows the last line's end is an id that a crash cut off.
        lines = lines[:-1]
        ours = first == self._head.encode()
        return {line.decode("ascii", "replace") for line in lines} if ours else set()

    def leave_out(self, alert: Alert) -> None:
        """Note an alert that is not to be given again before the next start."""
        super().add(alert)

    def add(self, alert: Alert) -> None:
        """Remember one more. Never raises."""
        super().add(alert)
        try:
            if self._file is None:
                self._file = self._begin()
            self._file.write(alert.alert_id.encode() + b"\n")
            self._file.flush()
        except OSError as error:
            _log.warning("alerts_not_remembered", why=str(error), then="they are given again")
            self.close()

    def _begin(self) -> IO[bytes]:
        known = sorted(self._read())
        text = "".join(f"{line}\n" for line in (self._head, *known))
        new = self._path.with_name(self._path.name + ".new")
        new.unlink(missing_ok=True)
        make_private(new)
        new.write_text(text, encoding="ascii")
        new.replace(self._path)
        return self._path.open("ab")

    def close(self) -> None:
        """Let go of the file."""
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except OSError as error:
                _log.warning("alerts_not_remembered", why=str(error))
