"""The limits of a partition's datasets with their reserved totals, committed and uncommitted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, Protocol

from accountant.checksum import Checksum, crc_of_row
from accountant.limits.reserved_totals import ReservedTotals, Sums, larger, minus, plus
from accountant.limits.state import Key, LimitState, row_of
from accountant.records import encode
from accountant.records.limit_records import scope_row_key

_NONE_RESERVED: Final = ReservedTotals()


class LimitStore(Protocol):
    """Looks up limits, and the totals that their shares reserve.

    The totals, by team and by dataset, are updated with each limit, so a request never adds up
    shares.
    """

    def get(self, key: Key) -> LimitState | None: ...
    def reserved_in(self, dataset: str, team: str) -> ReservedTotals: ...
    def reserved(self, dataset: str) -> Sums: ...
    def of_dataset(self, dataset: str) -> list[LimitState]: ...


class LimitTable:
    """The limits by key, and the totals of their shares; every call is O(1).

    Attributes:
        levels: by key.
    """

    __slots__ = ("_limits", "_reserved", "_reserved_in", "_uses", "levels")

    def __init__(self) -> None:
        self.levels: dict[Key, LimitState] = {}
        self._limits: dict[str, dict[Key, None]] = {}
        self._uses: dict[str, dict[Key, None]] = {}
        self._reserved_in: dict[tuple[str, str], ReservedTotals] = {}
        self._reserved: dict[str, Sums] = {}

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self.levels)

    def get(self, key: Key) -> LimitState | None:
        """Return a limit, None for one that was never set or used."""
        return self.levels.get(key)

    def reserved_in(self, dataset: str, team: str) -> ReservedTotals:
        """Return the analysts' shares within a team's share; for team "", those outside any."""
        return self._reserved_in.get((dataset, team), _NONE_RESERVED)

    def reserved(self, dataset: str) -> Sums:
        """Return the total that all shares of a dataset reserve, empty for none."""
        return self._reserved.get(dataset, ())

    def for_analyst(self, dataset: str, analyst: str, team: str) -> LimitTable:
        """Return a fixed copy of the limits that an analyst's requests are checked against.

        Args:
            team: the analyst's, "" for none.
        """
        copy, own = LimitTable(), self.get((dataset, "analyst", "", analyst))
        teams = {team, own.within if own is not None else ""}
        keys: list[Key] = [(dataset, "dataset", "", ""), (dataset, "analyst", "", analyst)]
        keys += [(dataset, "each", "", team), (dataset, "each", team, analyst)]
        keys += [(dataset, "team", "", name) for name in teams]
        for key in keys:
            level = self.get(key)
            if level is not None:
                copy.keep(key, level)
        totals = {(dataset, name): self.reserved_in(dataset, name) for name in teams}
        copy.take_totals(totals, {dataset: self.reserved(dataset)})
        return copy

    def put(self, level: LimitState) -> None:
        """Set a limit's state."""
        self.replace(level.key, level)

    def replace(self, key: Key, level: LimitState | None) -> None:
        """Set a limit's state; None removes it."""
        before = self.levels.get(key)
        if _moves_shares(before, level):
            after = reserved_after(self, before, level)
            self.take_totals(after.teams, {key[0]: after.total})
        if level is None:
            self.levels.pop(key, None)
            for keys in (self._limits, self._uses):
                keys.get(key[0], {}).pop(key, None)
        else:
            self.keep(key, level)

    def keep(self, key: Key, level: LimitState) -> None:
        """Set a limit's state; the caller updates the totals of shares."""
        if key not in self.levels:
            keys = self._uses if level.rule is None else self._limits
            keys.setdefault(key[0], {})[key] = None
        self.levels[key] = level

    def limits_of(self, dataset: str) -> list[LimitState]:
        """Return the limits of a dataset that owners set. Any thread may call this."""
        keys = self._limits.get(dataset, {}).copy()
        return [level for key in keys if (level := self.levels.get(key)) is not None]

    def of_dataset(self, dataset: str) -> list[LimitState]:
        """Return the limits of a dataset, and analysts' usage under its defaults."""
        keys = (*self._limits.get(dataset, ()), *self._uses.get(dataset, ()))
        return [self.levels[key] for key in keys]

    def take_totals(
        self, teams: dict[tuple[str, str], ReservedTotals], datasets: dict[str, Sums]
    ) -> None:
        """Set the totals of shares that belong to the limits just set with `keep`."""
        self._reserved_in.update(teams)
        self._reserved.update(datasets)

    def __iter__(self) -> Iterator[LimitState]:
        """Yield every limit, by dataset, scope, team and name."""
        for _, level in sorted(self.levels.items()):
            yield level


class Reserved(NamedTuple):
    """The totals of shares after a change of one limit.

    Attributes:
        teams: the changed ones, by dataset and team.
        total: reserved by all shares of the dataset.
    """

    teams: dict[tuple[str, str], ReservedTotals]
    total: Sums


def _moves_shares(before: LimitState | None, after: LimitState | None) -> bool:
    if before is not None and after is not None and before.rule is after.rule:
        return before.unused != after.unused  # a grant, or a share that is used up
    return any(each is not None and bool(each.share) for each in (before, after))


def reserved_after(
    store: LimitStore, before: LimitState | None, after: LimitState | None
) -> Reserved:
    """Return the totals of shares after a change of one limit. Pure."""
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
        key = dataset, each.within
        old = changed.get(key) or store.reserved_in(*key)
        changed[key] = ReservedTotals(move(old.unused, each.unused), move(old.total, each.share))
    for key, new in changed.items():
        team = store.get((dataset, "team", "", key[1])) if key[1] else None
        old = store.reserved_in(*key)
        total = minus(plus(total, of_team(team, new)), of_team(team, old))
    return Reserved(changed, total)


def of_team(team: LimitState | None, inside: ReservedTotals) -> Sums:
    """Return the larger of a team's own unused share and its analysts' unused shares within it."""
    return larger(team.unused if team is not None else (), inside.unused)


class LimitOverlay:
    """A store with some limits replaced. It does not change the store below it."""

    __slots__ = ("_below", "_get", "_levels", "_reserved", "_reserved_in")

    def __init__(self, below: LimitStore) -> None:
        self._below = below
        self._get: Callable[[Key], LimitState | None] = below.get
        self._levels: dict[Key, LimitState] = {}
        self._reserved_in: dict[tuple[str, str], ReservedTotals] = {}
        self._reserved: dict[str, Sums] = {}

    def get(self, key: Key) -> LimitState | None:
        """Return a limit's current state."""
        level = self._levels.get(key)
        return self._get(key) if level is None else level

    def reserved_in(self, dataset: str, team: str) -> ReservedTotals:
        """As `LimitTable.reserved_in`, with the replaced limits."""
        inside = self._reserved_in.get((dataset, team))
        return self._below.reserved_in(dataset, team) if inside is None else inside

    def of_dataset(self, dataset: str) -> list[LimitState]:
        """As `LimitTable.of_dataset`, with the replaced limits."""
        replaced = {key: level for key, level in self._levels.items() if key[0] == dataset}
        below = {level.key: level for level in self._below.of_dataset(dataset)}
        return [*(below | replaced).values()]

    def reserved(self, dataset: str) -> Sums:
        """As `LimitTable.reserved`, with the replaced limits."""
        total = self._reserved.get(dataset)
        return self._below.reserved(dataset) if total is None else total

    def put(self, level: LimitState) -> None:
        """Set a limit's state."""
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


class LimitChanges(LimitOverlay):
    """Changes to a table that are decided but not committed."""

    __slots__ = ("_crcs", "_table", "_undo")

    def __init__(self, table: LimitTable) -> None:
        super().__init__(table)
        self._table = table
        self._get = table.levels.get  # every request asks, of each level
        self._crcs: dict[Key, tuple[LimitState, int]] = {}  # of the rows written last
        self._undo: list[tuple[dict[Any, Any], Any, bool, Any]] = []

    def _set(self, where: dict[Any, Any], key: Any, value: Any) -> None:
        self._undo.append((where, key, key in where, where.get(key)))
        where[key] = value

    def mark(self) -> None:
        """Set the point that `undo` returns to."""
        self._undo.clear()

    def undo(self) -> None:
        """Go back to the last mark."""
        while self._undo:
            where, key, existed, before = self._undo.pop()
            if existed:
                where[key] = before
            else:
                del where[key]

    @property
    def count(self) -> int:
        """Number of rows, with these changes."""
        return self._table.count + sum(key not in self._table.levels for key in self._levels)

    def rows(self, sums: Checksum) -> tuple[list[tuple[bytes, bytes | None]], int]:
        """Return the changed rows for `state`, and the change of the checksum."""
        rows: list[tuple[bytes, bytes | None]] = []
        moved = 0
        for key, level in self._levels.items():
            name, value = scope_row_key(*key), encode(row_of(level))
            crc = crc_of_row(value)
            moved += crc - sums.of(name.decode())
            self._crcs[key] = level, crc
            rows.append((name, value))
        return rows, moved

    def absorb(self, sums: Checksum) -> None:
        """Move the changes into the table, with the checksums of the rows written last."""
        table = self._table
        for key, level in self._levels.items():
            name = scope_row_key(*key).decode()
            written, crc = self._crcs.get(key, (None, 0))
            if written is level:
                sums.put(name, crc)
            else:  # nobody asked for its row
                sums.forget(name)
            table.keep(key, level)
        table.take_totals(self._reserved_in, self._reserved)
