"""How every dataset stands, wherever the ledger is; a ledger's file is only read."""

from __future__ import annotations

from contextlib import AbstractContextManager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import msgspec

from accountant.claims import Claim
from accountant.errors import LogDamaged
from accountant.records import decode_snapshot
from accountant.records.members import Member, decode_member_row, member_keys
from accountant.records.names import is_name
from accountant.records.outcomes import Outcome
from accountant.views.datasets import DatasetView, view_of_snapshot
from accountant.views.follow import counted, decode_line, fold_run, runs
from streams.cli.printing.exits import Exit, fail
from streams.cli.reading.decoding import decoded
from streams.errors import NotPermitted, Refused

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import apsw

    from accountant.records.decided import CountedDecision
    from streams.client import Accountant

_AT_A_TIME: Final = 20_000  # the longer a dataset's run, the less of it is decoded whole
_SNAPSHOT: Final = b'{"type":"snapshot"'


class _Asked(msgspec.Struct):
    """The part of a request that tells its cost."""

    claim: Claim


_decode_asked: Final = msgspec.json.Decoder(_Asked).decode


class Views(AbstractContextManager["Views"]):
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

    def members(self, name: str) -> list[Member]:
        """Return a dataset's members by name, those whose time is over among them.

        Raises: Unavailable, Refused, LogDamaged.
        """
        raise NotImplementedError

    def rollbacks(self) -> Mapping[int, int]:
        """Return how many losses each partition's log has accepted, of those that have.

        Raises: Unavailable, Refused, LogDamaged.
        """
        raise NotImplementedError

    def last_granted(self, name: str) -> Claim | None:
        """Return the claim of the last grant on a dataset that `one` has read, None if not known.

        Raises: LogDamaged.
        """
        return None

    @property
    def is_whole(self) -> bool:
        """Whether every dataset is seen, and not only those that a door shows to whom it knows.

        Raises: Unavailable, Refused.
        """
        return True

    def close(self) -> None:
        """Let go of the ledger."""

    def __exit__(self, *_: object) -> None:
        self.close()


class _FileViews(Views):
    """The log of a ledger's file, folded as it grows, beside its writer or without one.

    Args:
        only: the one dataset that will be asked for; without it, any may be.
    """

    def __init__(self, path: Path, *, only: str | None = None) -> None:
        self._path = path
        # Names hold nothing that JSON escapes, so a decision without these bytes is another's.
        self._within = b"" if only is None else only.encode()
        self._read = -1
        self._views: dict[str, DatasetView] = {}
        self._rows: dict[bytes, bytes] = {}  # that agree with them
        self._granted: dict[str, tuple[int, bytes]] = {}  # the last grant's number and request

    def read(self) -> list[DatasetView]:
        return self._shown("ORDER BY key", ())

    def one(self, name: str) -> DatasetView | None:
        if not is_name(name):
            return None
        alone = _FileViews(self._path, only=name)
        found = alone._shown("WHERE key = ?", (name.encode(),))
        self._granted.update(alone._granted)
        return found[0] if found else None

    def members(self, name: str) -> list[Member]:
        from streams.embedded.ledger_file import ROWS, decoded_row, reader, sound_row

        if not is_name(name):
            return []
        first, last = member_keys(name)
        with reader(self._path) as db:
            found: list[Any] = db.execute(
                f"{ROWS} WHERE key > ? AND key < ? ORDER BY key", (first, last)
            ).fetchall()
        rows = [decoded_row(row[0], sound_row(*row), decode_member_row) for row in found]
        return [row.told for row in sorted(rows, key=lambda row: row.member)]

    def last_granted(self, name: str) -> Claim | None:
        if name not in self._granted:
            return None
        number, request = self._granted[name]
        return decoded(number, request, _decode_asked).claim

    def rollbacks(self) -> Mapping[int, int]:
        from streams.embedded.ledger_file import partition_row, reader

        with reader(self._path) as db:
            row = partition_row(db)
        return {0: row.branch} if row is not None and row.branch else {}

    def _shown(self, which: str, bindings: tuple[bytes, ...]) -> list[DatasetView]:
        """Return the datasets that have a row, as the log has them at the same moment.

        Args:
            which: the query from its WHERE or ORDER on.
        """
        from streams.embedded.ledger_file import ROWS, reader, sound_row

        query = f"{ROWS} {which}"
        with reader(self._path) as db:
            if not db.execute(f"{query} LIMIT 1", bindings).fetchall():
                return []
            self._catch_up(db)  # before the transaction, which is short for that
            with db:  # one transaction, so one moment
                rows: list[Any] = db.execute(query, bindings).fetchall()
                self._catch_up(db)
        found = [(row[0], sound_row(*row)) for row in rows]
        return [self._view(key, value) for key, value in found if value.startswith(_SNAPSHOT)]

    def _catch_up(self, db: apsw.Connection) -> None:
        """Take in the decisions since the last time.

        No statement lasts: outside a transaction, the writer's WAL goes back into the file
        meanwhile.

        Raises: LogDamaged: a decision cannot be read. Refused: as `numbered_decisions`.
        """
        from streams.embedded.ledger_file import numbered_decisions

        if self._read < 0:
            self._begin(db)
        lines = self._counted(numbered_decisions(db, first=self._read + 1))
        while found := runs(islice(lines, _AT_A_TIME)):
            for name, run in found.items():
                for view in fold_run(self._views.get(name), run):
                    self._views[name] = view

    def _begin(self, db: apsw.Connection) -> None:
        """Begin with the snapshot of a log whose beginning was archived."""
        from accountant.replay.sealed import partition_row
        from streams.embedded.archives.sealed_log import read_sealed

        sealed = read_sealed(db)
        if sealed is None:
            return
        for value in sealed.state[:-1]:
            if value.startswith(_SNAPSHOT) and self._within in value:
                row = decoded(0, value, decode_snapshot)
                self._views[row.dataset] = view_of_snapshot(row)
        self._read = partition_row(sealed).partition_sequence

    def _counted(self, values: Iterable[tuple[int, bytes]]) -> Iterator[CountedDecision]:
        for number, value in values:
            self._read = number
            if self._within in value:
                line = decoded(number, value, decode_line)
                if line.dataset is not None:
                    if self._within and line.outcome is Outcome.GRANTED:
                        self._granted[line.dataset] = number, bytes(line.request)
                    yield counted(line, value, usage=False)

    def _view(self, key: bytes, value: bytes) -> DatasetView:
        """Return the dataset of a row of `state`.

        Raises: LogDamaged: row and log disagree. Refused: the row cannot be read.
        """
        if self._rows.get(key) != value:
            from streams.embedded.ledger_file import decoded_row

            row = view_of_snapshot(decoded_row(key, value, decode_snapshot))
            view = self._views.setdefault(row.dataset, row)
            if (row.sequence, row.totals) != (view.sequence, view.totals):
                # The bytes of a decision have no checksum that is looked at here; a row has.
                raise LogDamaged(
                    f"the row of {row.dataset} in `state` must be as its decisions leave it: "
                    "`accountant audit` tells which is wrong"
                )
            self._rows[key] = value
        return self._views[key.decode()]


class _ClientViews(Views):
    def __init__(self, client: Accountant) -> None:
        self._client = client

    def read(self) -> list[DatasetView]:
        return self._client.datasets()

    def one(self, name: str) -> DatasetView | None:
        return self._client.dataset(name) if is_name(name) else None

    def members(self, name: str) -> list[Member]:
        try:
            return self._client.members(name) if is_name(name) else []
        except NotPermitted:
            return []

    def rollbacks(self) -> Mapping[int, int]:
        try:
            heads = self._client.heads()
        except Refused:  # a gateway of an earlier version has no /head
            return {}
        return {each.partition: each.branch for each in heads if each.branch}

    @property
    def is_whole(self) -> bool:
        if not self._client.shows_token:
            return True
        me = self._client.me()
        return me.administrator or not me.authentication

    def close(self) -> None:
        self._client.disconnect()


def open_views(url: str, token_file: Path | None = None) -> Views:
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
    from streams.cli.reading.connected import connected

    return _ClientViews(connected(url, token_file))


def opened(name: str, url: str, token_file: Path | None = None) -> DatasetView:
    """Return one dataset as it stands; end the command if it was never opened."""
    with open_views(url, token_file) as views:
        found = views.one(name)
    if found is None:
        fail_unopened(name)
    return found


def fail_unopened(name: str) -> NoReturn:
    """End the command for a dataset that was never opened."""
    hint = "`accountant dataset list` shows those there are"
    fail(Exit.FAILED, f"no dataset {name} was ever opened", hint=hint)
