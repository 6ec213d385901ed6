"""How every dataset stands, wherever the ledger is; a ledger's file is only read."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import msgspec

from accountant.records import decode_snapshot
from accountant.views import UNKNOWN, DatasetView, view_of_snapshot

if TYPE_CHECKING:
    import apsw

    from streams.client import Accountant

_COUNT: Final = """
SELECT dataset, outcome, reason, count(*), max(sequence), max(at) FROM (
    SELECT sequence, json_extract(text, '$.dataset') AS dataset,
        json_extract(text, '$.outcome') AS outcome, json_extract(text, '$.reason') AS reason,
        json_extract(text, '$.decided_at') AS at
    FROM (
        SELECT sequence, CAST(value AS TEXT) AS text FROM decisions WHERE sequence BETWEEN ? AND ?
    )
) WHERE dataset IS NOT NULL AND reason IS NOT 'wrong_partition' GROUP BY dataset, outcome, reason
"""


class _Counts:
    """What the log holds of one dataset."""

    def __init__(self) -> None:
        self.outcomes: dict[str, int] = {}
        self.reasons: dict[str, int] = {}
        self.last = UNKNOWN
        self.last_at = ""


class Views:
    """Reads all datasets again and again; made by `open_views`."""

    def read(self) -> list[DatasetView]:
        """Return every dataset as it stands now, by name.

        Raises: Unavailable, Refused.
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
        self._counted = -1
        self._counts: dict[str, _Counts] = {}

    def read(self) -> list[DatasetView]:
        from streams.journal.sqlite_file import reader

        with reader(self._path) as db, db:  # one transaction, so one moment
            rows = db.execute("SELECT value FROM state ORDER BY key").fetchall()
            self._count(db)
        views = []
        for (value,) in rows:
            assert isinstance(value, bytes)
            if value.startswith(b'{"type":"snapshot"'):
                view = view_of_snapshot(decode_snapshot(value))
                counts = self._counts.get(view.dataset) or _Counts()
                views.append(
                    msgspec.structs.replace(
                        view,
                        outcomes=dict(counts.outcomes),
                        reasons=dict(counts.reasons),
                        partition_sequence=counts.last,
                        last_decided_at=counts.last_at or view.last_decided_at,
                    )
                )
        return views

    def _count(self, db: apsw.Connection) -> None:
        """Take the decisions since the last look into the counts."""
        last = db.execute("SELECT max(sequence) FROM decisions").get
        if last is None:
            return
        rows = db.execute(_COUNT, (self._counted + 1, last))
        for dataset, outcome, reason, count, sequence, at in rows:
            counts = self._counts.setdefault(str(dataset), _Counts())
            for kind, kinds in ((outcome, counts.outcomes), (reason, counts.reasons)):
                if kind is not None:
                    kinds[str(kind)] = kinds.get(str(kind), 0) + int(count)
            counts.last = max(counts.last, int(sequence))
            counts.last_at = max(counts.last_at, str(at))
        self._counted = int(last)


class _ClientViews(Views):
    def __init__(self, client: Accountant) -> None:
        self._client = client

    def read(self) -> list[DatasetView]:
        return self._client.datasets()

    def close(self) -> None:
        self._client.disconnect()


def open_views(url: str) -> Views:
    """Return the views of the ledger at an address.

    Raises: AddressInvalid, Unavailable, NoSuchLedger, Refused.
    """
    from streams.settings import ledger_url

    where = ledger_url(url)
    if where.kind == "sqlite":
        path = Path(where.target)
        if not path.is_file():
            from streams.connect import check_there

            check_there(path)
        return _FileViews(path)
    from streams.client import Accountant

    return _ClientViews(Accountant(url))
