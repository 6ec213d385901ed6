"""The ids of an embedded ledger's alerts that a webhook has accepted, in a file next to it."""

from __future__ import annotations

from pathlib import Path
from typing import IO

from accountant.views.datasets import Alert, SeenAlerts
from streams.files.private_files import make_private
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)


class DeliveredAlerts(SeenAlerts):
    """Remembers delivered alerts over restarts, if the disk allows.

    This is a cache of deliveries, not of spending. If the file is lost or cannot be written, an
    alert is delivered again under the same id. The user of this class holds the ledger's lock.

    Args:
        path: of the ledger.
        head: hash of the ledger's decision 0. It detects a file that another ledger with the same
            path has left.
    """

    def __init__(self, path: Path, head: str) -> None:
        self._path = path.with_name(path.name + ".alerts")
        self._head = head
        self._file: IO[bytes] | None = None
        super().__init__(self._read())

    def _read(self) -> set[str]:
        """Return the ids in the file; an empty set if the file is not of this ledger."""
        try:
            first, *lines = self._path.read_bytes().split(b"\n")
        except OSError:
            return set()
        # A crash may have cut off the text after the last newline.
        lines = lines[:-1]
        ours = first == self._head.encode()
        return {line.decode("ascii", "replace") for line in lines} if ours else set()

    def skip_until_restart(self, alert: Alert) -> None:
        """Do not deliver an alert before the next start."""
        super().add(alert)

    def add(self, alert: Alert) -> None:
        """Remember a delivered alert. Never raises."""
        super().add(alert)
        try:
            if self._file is None:
                self._file = self._begin()
            self._file.write(alert.alert_id.encode() + b"\n")
            self._file.flush()
        except OSError as error:
            _log.warning("alerts_not_remembered", why=str(error), then="delivered again")
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
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except OSError as error:
                _log.warning("alerts_not_remembered", why=str(error))
