"""The levels of a partition's datasets, and what is reserved among them; also not yet committed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Protocol

from accountant.checksum import Checksum, crc_of_row
from accountant.limits.reserved import ReservedTotals, Sums, larger, minus, plus
from accountant.limits.state import Key, Level, row_of
from accountant.limits.wire import level_row_key
from accountant.records import encode

_NOT_BOOKED: Final = ReservedTotals()


class LimitStore(Protocol):
    """Where levels and sums of shares are kept.

    What shares withhold is kept in sums, by team and by dataset, which move with each level: no
    request adds up shares, however many there are.
    """

    def get(self, key: Key) -> Level | None: ...
    def booked(self, dataset: str, team: str) -> ReservedTotals: ...
    def withheld(self, dataset: str) -> Sums: ...


class LevelTable:
    """Levels by key, and sums of their shares; every call is O(1).

    Attributes:
        levels: by key.
    """

    __slots__ = ("_booked", "_limits", "_withheld", "levels")

    def __init__(self) -> None:
        self.levels: dict[Key, Level] = {}
        self._limits: dict[str, dict[Key, None]] = {}
        self._booked: dict[tuple[str, str], ReservedTotals] = {}
        self._withheld: dict[str, Sums] = {}

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self.levels)

    def get(self, key: Key) -> Level | None:
        """Return a level, None for one that was never set or used."""
        return self.levels.get(key)

    def booked(self, dataset: str, team: str) -> ReservedTotals:
        """Return the analysts' shares within a team's; of team "", those within nobody's."""
        return self._booked.get((dataset, team), _NOT_BOOKED)

    def withheld(self, dataset: str) -> Sums:
        """Return what all shares of a dataset withhold together, empty for nothing."""
        return self._withheld.get(dataset, ())

    def of_one(self, dataset: str, analyst: str, team: str) -> LevelTable:
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
        booked = {(dataset, name): self.booked(dataset, name) for name in teams}
        found.take_sums(booked, {dataset: self.withheld(dataset)})
        return found

    def put(self, level: Level) -> None:
        """Replace a level."""
        self.replace(level.key, level)

    def replace(self, key: Key, level: Level | None) -> None:
        """Replace a level, or drop it."""
        before = self.levels.get(key)
        if _moves_shares(before, level):
            shares = reserved_after(self, before, level)
            self.take_sums(shares.booked, {key[0]: shares.withheld})
        if level is None:
            self.levels.pop(key, None)
            self._limits.get(key[0], {}).pop(key, None)
        else:
            self.keep(key, level)

    def keep(self, key: Key, level: Level) -> None:
        """Replace a level whose sums of shares are replaced by somebody else."""
        if level.rule is not None and key not in self.levels:
            self._limits.setdefault(key[0], {})[key] = None
        self.levels[key] = level

    def limits_of(self, dataset: str) -> list[Level]:
        """Return the levels of a dataset that a record was made about; any thread may ask."""
        keys = self._limits.get(dataset, {}).copy()
        return [level for key in keys if (level := self.levels.get(key)) is not None]

    def take_sums(
        self, booked: dict[tuple[str, str], ReservedTotals], withheld: dict[str, Sums]
    ) -> None:
        """Replace sums of shares by those that go with levels which were replaced."""
        self._booked.update(booked)
        self._withheld.update(withheld)

    def __iter__(self) -> Iterator[Level]:
        """Yield every level, by dataset, scope, team and name."""
        for _, level in sorted(self.levels.items()):
            yield level


class Reserved:
    """Sums of shares as they are with some level replaced.

    Attributes:
        booked: by dataset and team, those that change.
        withheld: by all shares of the dataset.
    """

    __slots__ = ("booked", "withheld")

    def __init__(self, booked: dict[tuple[str, str], ReservedTotals], withheld: Sums) -> None:
        self.booked = booked
        self.withheld = withheld


def _moves_shares(before: Level | None, after: Level | None) -> bool:
    if before is not None and after is not None and before.rule is after.rule:
        return before.withheld != after.withheld  # a grant, or a share that is used up
    return any(each is not None and bool(each.share) for each in (before, after))


def reserved_after(places: LimitStore, before: Level | None, after: Level | None) -> Reserved:
    """Return the sums of shares with a level replaced; nothing is changed."""
    level = after or before
    assert level is not None
    dataset, withheld = level.dataset, places.withheld(level.dataset)
    if level.scope == "team":
        booked = places.booked(dataset, level.name)
        withheld = minus(plus(withheld, of_team(after, booked)), of_team(before, booked))
        return Reserved({}, withheld)
    changed: dict[tuple[str, str], ReservedTotals] = {}
    for each, move in ((after, plus), (before, minus)):
        if each is None or not each.share:
            continue
        place = dataset, each.within
        old = changed.get(place) or places.booked(*place)
        changed[place] = ReservedTotals(
            move(old.withheld, each.withheld), move(old.whole, each.share)
        )
    for place, new in changed.items():
        team = places.get((dataset, "team", "", place[1])) if place[1] else None
        old = places.booked(*place)
        withheld = minus(plus(withheld, of_team(team, new)), of_team(team, old))
    return Reserved(changed, withheld)


def of_team(team: Level | None, booked: ReservedTotals) -> Sums:
    """Return what a team's share withholds, those of its analysts within it: whichever is more."""
    return larger(team.withheld if team is not None else (), booked.withheld)


class LevelChanges:
    """Changes to a table that are decided but not committed."""

    __slots__ = ("_below", "_booked", "_crcs", "_levels", "_table", "_undo", "_withheld")

    def __init__(self, table: LevelTable) -> None:
        self._table = table
        self._below = table.levels
        self._levels: dict[Key, Level] = {}
        self._booked: dict[tuple[str, str], ReservedTotals] = {}
        self._withheld: dict[str, Sums] = {}
        self._crcs: dict[Key, tuple[Level, int]] = {}  # of the rows written last
        self._undo: list[tuple[dict[Any, Any], Any, bool, Any]] = []

    def get(self, key: Key) -> Level | None:
        """Return a level as it is now."""
        level = self._levels.get(key)
        return self._below.get(key) if level is None else level

    def booked(self, dataset: str, team: str) -> ReservedTotals:
        """As `LevelTable.booked`, as it is now."""
        booked = self._booked.get((dataset, team))
        return self._table.booked(dataset, team) if booked is None else booked

    def withheld(self, dataset: str) -> Sums:
        """As `LevelTable.withheld`, as it is now."""
        withheld = self._withheld.get(dataset)
        return self._table.withheld(dataset) if withheld is None else withheld

    def put(self, level: Level) -> None:
        """Replace a level."""
        key = level.key
        before = self.get(key)
        if _moves_shares(before, level):
            shares = reserved_after(self, before, level)
            for place, booked in shares.booked.items():
                self._set(self._booked, place, booked)
            self._set(self._withheld, level.dataset, shares.withheld)
        self._set(self._levels, key, level)

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
        table.take_sums(self._booked, self._withheld)
