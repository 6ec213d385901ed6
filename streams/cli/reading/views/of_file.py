"""Datasets in a ledger's file, beside its writer or without one."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accountant.advice.preview import Preview, preview
from accountant.claims import Claim
from accountant.errors import LogDamaged, RequestInvalid
from accountant.limits.applicable import team_of
from accountant.records import decode_snapshot
from accountant.records.decoding import decoded
from accountant.records.members import Member, decode_member_row, member_keys
from accountant.records.names import is_name
from accountant.records.outcomes import Outcome
from accountant.records.previews import PreviewRequest
from accountant.views.datasets import DatasetView, view_of_snapshot
from accountant.views.follow import counted, decode_line, fold_run, runs
from accountant.views.limit_views import AnalystBudget, LevelView, analyst_budget, level_views
from accountant.views.population import ordered_before
from streams.cli.reading.views.base import Views
from streams.cli.reading.views.limits_of_file import divided_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import apsw

    from accountant.records.decided import CountedDecision

_AT_A_TIME: Final = 20_000  # the longer a dataset's run, the less of it is decoded whole
_SNAPSHOT: Final = b'{"type":"snapshot"'


class _Asked(msgspec.Struct):
    """The part of a request that tells its cost."""

    claim: Claim


_decode_asked: Final = msgspec.json.Decoder(_Asked).decode


class FileViews(Views):
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
        alone = FileViews(self._path, only=name)
        found = alone._shown("WHERE key = ?", (name.encode(),))
        self._granted.update(alone._granted)
        return found[0] if found else None

    def ordered_before(self) -> int | None:
        from streams.embedded.ledger_file import partition_row, reader

        with reader(self._path) as db:
            row = partition_row(db)
        return 0 if row is None else ordered_before([(row.resets or 0, row.reset_at or 0)])

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

    def levels(self, name: str) -> list[LevelView]:
        view = self.one(name)
        return [] if view is None else level_views(divided_in(self._path, view)[0])

    def budget(self, name: str, analyst: str | None) -> AnalystBudget | None:
        view = self.one(name)
        if view is None:
            return None
        if analyst is None:
            raise RequestInvalid("analyst", "must be given, or be set as ACCOUNTANT_ANALYST", None)
        divided, rows = divided_in(self._path, view, analyst)
        return analyst_budget(divided, analyst, team_of(rows.get(analyst), divided.at))

    def budgets_in(self, view: DatasetView, analysts: Iterable[str]) -> dict[str, AnalystBudget]:
        divided, _ = divided_in(self._path, view)
        teams = {
            member.member: member.team or ""
            for member in self.members(view.dataset)
            if member.is_in_force(divided.at)
        }
        return {name: analyst_budget(divided, name, teams.get(name, "")) for name in analysts}

    def preview(self, view: DatasetView, asked: PreviewRequest) -> Preview:
        names = asked.analyst or "", asked.via or ""
        divided, rows = divided_in(self._path, view, *names)
        return preview(view, asked, divided, lambda _, name: rows.get(name))

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
        from streams.embedded.sealed_log import read_sealed

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
