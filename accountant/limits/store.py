"""The levels of a partition's datasets, and what is reserved among them; also not yet committed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, Protocol

from accountant.checksum import Checksum, crc_of_row
from accountant.limits.reserved_totals import ReservedTotals, Sums, larger, minus, plus
from accountant.limits.state import Key, Level, row_of
from accountant.limits.wire import level_row_key
from accountant.records import encode

_NONE_RESERVED: Final = ReservedTotals()


class LimitStore(Protocol):
    """Levels, and what their shares reserve.

    Running totals of what is reserved, by team and by dataset, move with each level: no request
    adds up shares, however many there are.
    """

    def get(self, key: Key) -> Level | None: ...
    def reserved_in(self, dataset: str, team: str) -> ReservedTotals: ...
    def reserved(self, dataset: str) -> Sums: ...


class LevelTable:
    """Levels by key, and totals of their shares; every call is O(1).

    Attributes:
        levels: by key.
    """

    __slots__ = ("_limits", "_reserved", "_reserved_in", "levels")

    def __init__(self) -> None:
        self.levels: dict[Key, Level] = {}
        self._limits: dict[str, dict[Key, None]] = {}
        self._reserved_in: dict[tuple[str, str], ReservedTotals] = {}
        self._reserved: dict[str, Sums] = {}

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self.levels)

    def get(self, key: Key) -> Level | None:
        """Return a level, None for one that was never set or used."""
        return self.levels.get(key)

    def reserved_in(self, dataset: str, team: str) -> ReservedTotals:
        """Return the analysts' shares within a team's share; for team "", those outside any."""
        return self._reserved_in.get((dataset, team), _NONE_RESERVED)

    def reserved(self, dataset: str) -> Sums:
        """Return what all shares of a dataset reserve together, empty for nothing."""
        return self._reserved.get(dataset, ())

    def for_analyst(self, dataset: str, analyst: str, team: str) -> LevelTable:
        """Return a copy of what an analyst's requests are checked at, which nothing moves.

        Args:
            team: the analyst's, "" for none.
        """
        found, own = LevelTable(), self.get((dataset, "analyst", "", analyst))
        teams = {team, own.within if own is not None else ""}
        keys: list[Key] = [(dataset, "dataset", "", ""), (dataset, "analyst", "", analyst)]
        keys += [(dataset, "each", "", team), (dataset, "each", team, analyst)]
        keys += [(dataset, "team", "", name) for name in teams]
        for key in keys:
            level = self.get(key)
            if level is not None:
                found.keep(key, level)
        totals = {(dataset, name): self.reserved_in(dataset, name) for name in teams}
        found.take_totals(totals, {dataset: self.reserved(dataset)})
        return found

    def put(self, level: Level) -> None:
        """Replace a level."""
        self.replace(level.key, level)

    def replace(self, key: Key, level: Level | None) -> None:
        """Replace a level, or drop it."""
        before = self.levels.get(key)
        if _moves_shares(before, level):
            after = reserved_after(self, before, level)
            self.take_totals(after.teams, {key[0]: after.total})
        if level is None:
            self.levels.pop(key, None)
            self._limits.get(key[0], {}).pop(key, None)
        else:
            self.keep(key, level)

    def keep(self, key: Key, level: Level) -> None:
        """Replace a level; the caller replaces the totals of shares."""
        if level.rule is not None and key not in self.levels:
            self._limits.setdefault(key[0], {})[key] = None
        self.levels[key] = level

    def limits_of(self, dataset: str) -> list[Level]:
        """Return the levels of a dataset that a record was made about; any thread may ask."""
        keys = self._limits.get(dataset, {}).copy()
        return [level for key in keys if (level := self.levels.get(key)) is not None]

    def take_totals(
        self, teams: dict[tuple[str, str], ReservedTotals], datasets: dict[str, Sums]
    ) -> None:
        """Replace totals of shares by those that go with levels which were replaced."""
        self._reserved_in.update(teams)
        self._reserved.update(datasets)

    def __iter__(self) -> Iterator[Level]:
        """Yield every level, by dataset, scope, team and name."""
        for _, level in sorted(self.levels.items()):
            yield level


class Reserved(NamedTuple):
    """Totals of shares as they are with some level replaced.

    Attributes:
        teams: by dataset and team, those that change.
        total: by all shares of the dataset.
    """

    teams: dict[tuple[str, str], ReservedTotals]
    total: Sums


def _moves_shares(before: Level | None, after: Level | None) -> bool:
    if before is not None and after is not None and before.rule is after.rule:
        return before.unused != after.unused  # a grant, or a share that is used up
    return any(each is not None and bool(each.share) for each in (before, after))


def reserved_after(store: LimitStore, before: Level | None, after: Level | None) -> Reserved:
    """Return the totals of shares with a level replaced; nothing is changed."""
    level = after or before
    assert level is not None
    dataset, total = level.dataset, store.reserved(level.dataset)
    if level.scope == "team":
        inside = store.reserved_in(dataset, level.name)
        total = minus(plus(total, of_team(after, inside)), of_team(before, inside))
        return Reserved({}, total)
    changed: dict[tuple[str, str], ReservedTotals] = {}
    for each, move in ((after, plus), (before, minus)):
        if each is None or not each.share:
            continue
        place = dataset, each.within
        old = changed.get(place) or store.reserved_in(*place)
        changed[place] = ReservedTotals(move(old.unused, each.unused), move(old.total, each.share))
    for place, new in changed.items():
        team = store.get((dataset, "team", "", place[1])) if place[1] else None
        old = store.reserved_in(*place)
        total = minus(plus(total, of_team(team, new)), of_team(team, old))
    return Reserved(changed, total)


def of_team(team: Level | None, inside: ReservedTotals) -> Sums:
    """Return what a team's share reserves, those of its analysts within it: whichever is more."""
    return larger(team.unused if team is not None else (), inside.unused)


class LimitOverlay:
    """A store with some levels replaced, which leaves the one below as it is."""

    __slots__ = ("_below", "_get", "_levels", "_reserved", "_reserved_in")

    def __init__(self, below: LimitStore) -> None:
        self._below = below
        self._get: Callable[[Key], Level | None] = below.get
        self._levels: dict[Key, Level] = {}
        self._reserved_in: dict[tuple[str, str], ReservedTotals] = {}
        self._reserved: dict[str, Sums] = {}

    def get(self, key: Key) -> Level | None:
        """Return a level as it is now."""
        level = self._levels.get(key)
        return self._get(key) if level is None else level

    def reserved_in(self, dataset: str, team: str) -> ReservedTotals:
        """As `LevelTable.reserved_in`, as it is now."""
        inside = self._reserved_in.get((dataset, team))
        return self._below.reserved_in(dataset, team) if inside is None else inside

    def reserved(self, dataset: str) -> Sums:
        """As `LevelTable.reserved`, as it is now."""
        total = self._reserved.get(dataset)
        return self._below.reserved(dataset) if total is None else total

    def put(self, level: Level) -> None:
        """Replace a level."""
        key = level.key
        before = self.get(key)
        if _moves_shares(before, level):
            after = reserved_after(self, before, level)
            for place, inside in after.teams.items():
                self._set(self._reserved_in, place, inside)
            self._set(self._reserved, level.dataset, after.total)
        self._set(self._levels, key, level)

    def _set(self, where: dict[Any, Any], key: Any, value: Any) -> None:
        where[key] = value


class LevelChanges(LimitOverlay):
    """Changes to a table that are decided but not committed."""

    __slots__ = ("_crcs", "_table", "_undo")

    def __init__(self, table: LevelTable) -> None:
        super().__init__(table)
        self._table = table
        self._get = table.levels.get  # every request asks, of each level
        self._crcs: dict[Key, tuple[Level, int]] = {}  # of the rows written last
        self._undo: list[tuple[dict[Any, Any], Any, bool, Any]] = []

    def _set(self, where: dict[Any, Any], key: Any, value: Any) -> None:
        self._undo.append((where, key, key in where, where.get(key)))
        where[key] = value

    def mark(self) -> None:
        """Begin what `undo` undoes."""
        self._undo.clear()

    def undo(self) -> None:
        """Go back to the last mark."""
        while self._undo:
            where, key, there, before = self._undo.pop()
            if there:
                where[key] = before
            else:
                del where[key]

    @property
    def count(self) -> int:
        """Number of rows as it is now."""
        return self._table.count + sum(key not in self._table.levels for key in self._levels)

    def rows(self, sums: Checksum) -> tuple[list[tuple[bytes, bytes | None]], int]:
        """Return the changed rows for `state`, and by how much they move the checksum."""
        rows: list[tuple[bytes, bytes | None]] = []
        moved = 0
        for key, level in self._levels.items():
            name, value = level_row_key(*key), encode(row_of(level))
            crc = crc_of_row(value)
            moved += crc - sums.of(name.decode())
            self._crcs[key] = level, crc
            rows.append((name, value))
        return rows, moved

    def absorb(self, sums: Checksum) -> None:
        """Make the changes the table's own, and their sums those of the rows written last."""
        table = self._table
        for key, level in self._levels.items():
            name = level_row_key(*key).decode()
            written, crc = self._crcs.get(key, (None, 0))
            if written is level:
                sums.put(name, crc)
            else:  # nobody asked for its row
                sums.forget(name)
            table.keep(key, level)
        table.take_totals(self._reserved_in, self._reserved)
