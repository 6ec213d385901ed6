"""How every dataset stands, wherever the ledger is; a ledger's file is only read."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import msgspec

from accountant.records import decode_snapshot
from accountant.records.inputs import is_name
from accountant.views.datasets import UNKNOWN, DatasetView, view_of_snapshot
from streams.cli.reading.log_counts import LogCounts

if TYPE_CHECKING:
    from streams.client import Accountant

_SNAPSHOT: Final = b'{"type":"snapshot"'


class Views:
    """Reads datasets again and again; made by `open_views`."""

    def read(self) -> list[DatasetView]:
        """Return every dataset as it stands now, by name.

        Raises: Unavailable, Refused, LogDamaged.
        """
        raise NotImplementedError

    def one(self, name: str) -> DatasetView | None:
        """Return one dataset as it stands now, None if it was never opened; the rest is not read.

        Raises: Unavailable, Refused, LogDamaged.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Let go of the ledger."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _FileViews(Views):
    """The rows of `state` in a ledger's file, beside its writer or without one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._counts = LogCounts()
        self._known: dict[bytes, _Known] = {}

    def read(self) -> list[DatasetView]:
        known = {}
        for key, value in self._rows("ORDER BY key", (), self._counts):
            known[key] = _seen(self._known.get(key), key, value, self._counts)
        self._known = known
        return [each.view for each in known.values()]

    def one(self, name: str) -> DatasetView | None:
        if not is_name(name):
            return None
        counts = LogCounts(only=name)
        for key, value in self._rows("WHERE key = ?", (name.encode(),), counts):
            return _seen(None, key, value, counts).view
        return None

    def _rows(
        self, which: str, bindings: tuple[bytes, ...], counts: LogCounts
    ) -> list[tuple[bytes, bytes]]:
        """Return the rows of datasets, counted up to the same moment.

        Args:
            which: the query from its WHERE or ORDER on.
        """
        from streams.embedded.ledger_file import ROWS, reader, sound_row

        query = f"{ROWS} {which}"
        with reader(self._path) as db:
            if not db.execute(f"{query} LIMIT 1", bindings).fetchall():
                return []
            counts.catch_up(db)  # before the transaction, which is short for that
            with db:  # one transaction, so one moment
                rows: list[Any] = db.execute(query, bindings).fetchall()
                counts.catch_up(db)
        found = [(row[0], sound_row(*row)) for row in rows]
        return [(key, value) for key, value in found if value.startswith(_SNAPSHOT)]


class _Known(NamedTuple):
    """A dataset as it was when last looked at.

    Attributes:
        value: its row. `last`: the number of the last decision counted, or `UNKNOWN`.
    """

    value: bytes
    last: int
    view: DatasetView


def _seen(known: _Known | None, key: bytes, value: bytes, of: LogCounts) -> _Known:
    """Return a dataset as its row and the log have it; only what changed is made anew."""
    if known is None or known.value != value:
        from streams.embedded.ledger_file import decoded_row

        snapshot = decoded_row(key, value, decode_snapshot)
        known = _Known(value, UNKNOWN, view_of_snapshot(snapshot))
    counts = of.of(known.view.dataset)
    if known.last == counts.last:
        return known
    shown = msgspec.structs.replace(
        known.view,
        outcomes=dict(counts.outcomes),
        reasons=dict(counts.reasons),
        partition_sequence=counts.last,
        last_decided_at=counts.last_at,
    )
    return _Known(value, counts.last, shown)


class _ClientViews(Views):
    def __init__(self, client: Accountant) -> None:
        self._client = client

    def read(self) -> list[DatasetView]:
        return self._client.datasets()

    def one(self, name: str) -> DatasetView | None:
        return self._client.dataset(name) if is_name(name) else None

    def close(self) -> None:
        self._client.disconnect()


def open_views(url: str) -> Views:
    """Return the views of the ledger at an address.

    Raises: AddressInvalid, Unavailable, NoSuchLedger, Refused.
    """
    from streams.address import ledger_url

    where = ledger_url(url)
    if where.kind == "sqlite":
        path = Path(where.target)
        if not path.is_file():
            from streams.client.connect import check_there

            check_there(path)
        return _FileViews(path)
    from streams.client import Accountant

    return _ClientViews(Accountant(url))
