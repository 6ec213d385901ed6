"""The limits of a partition's datasets with reserved totals and ends, committed and uncommitted."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any, Final, NamedTuple, Protocol

from accountant.checksum import Checksum, crc_of_row
from accountant.limits.reserved_totals import ReservedTotals, Sums, larger, minus, plus
from accountant.limits.state import Key, LimitState, after_end, row_of
from accountant.records import encode
from accountant.records.limit_records import scope_row_key
from accountant.records.row_changes import unknown_rows

_NONE_RESERVED: Final = ReservedTotals()

Ends = tuple[tuple[int, Key], ...]
"""When limits end, milliseconds since 1970, the first one first."""


class LimitStore(Protocol):
    """Looks up limits, and the totals that their shares reserve.

    The totals, by team and by dataset, are updated with each limit, so a request never adds up
    shares.
    """

    def get(self, key: Key) -> LimitState | None: ...
    def reserved_in(self, dataset: str, team: str) -> ReservedTotals: ...
    def reserved(self, dataset: str) -> Sums: ...
    def of_dataset(self, dataset: str) -> list[LimitState]: ...
    def limits_of(self, dataset: str) -> list[LimitState]: ...
    def ends(self, dataset: str) -> Ends: ...
    def put(self, level: LimitState) -> None: ...


class LimitTable:
    """The limits by key, and the totals of their shares; every call is O(1).

    Attributes:
        levels: by key.
    """

    __slots__ = ("_ends", "_limits", "_reserved", "_reserved_in", "_uses", "levels")

    def __init__(self) -> None:
        self.levels: dict[Key, LimitState] = {}
        self._limits: dict[str, dict[Key, None]] = {}
        self._uses: dict[str, dict[Key, None]] = {}
        self._reserved_in: dict[tuple[str, str], ReservedTotals] = {}
        self._reserved: dict[str, Sums] = {}
        self._ends: dict[str, Ends] = {}

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

    def ends(self, dataset: str) -> Ends:
        """Return when limits of a dataset end that are in force."""
        return self._ends.get(dataset, ())

    @property
    def datasets_with_ends(self) -> list[str]:
        """The datasets of which a limit ends at some time."""
        return sorted(dataset for dataset, ends in self._ends.items() if ends)

    def for_analyst(self, dataset: str, analyst: str, team: str, at: int) -> LimitTable:
        """Return a fixed copy of the limits that an analyst's requests are checked against.

        Args:
            team: the analyst's, "" for none.
            at: the time, milliseconds since 1970: limits that have ended by then are over.
        """
        now = as_of(self, dataset, at)
        copy, own = LimitTable(), now.get((dataset, "analyst", "", analyst))
        teams = {team, own.within if own is not None else ""}
        keys: list[Key] = [(dataset, "dataset", "", ""), (dataset, "analyst", "", analyst)]
        keys += [(dataset, "each", "", team), (dataset, "each", team, analyst)]
        keys += [(dataset, "team", "", name) for name in teams]
        for key in keys:
            level = now.get(key)
            if level is not None:
                copy.keep(key, level)
        totals = {(dataset, name): now.reserved_in(dataset, name) for name in teams}
        copy.take_totals(totals, {dataset: now.reserved(dataset)}, {})
        return copy

    def put(self, level: LimitState) -> None:
        """Set a limit's state."""
        self.replace(level.key, level)

    def replace(self, key: Key, level: LimitState | None) -> None:
        """Set a limit's state; None removes it."""
        before = self.levels.get(key)
        if _moves_shares(before, level):
            after = reserved_after(self, before, level)
            self.take_totals(after.teams, {key[0]: after.total}, {})
        if _moves_end(before, level):
            self._ends[key[0]] = _ends_after(self.ends(key[0]), key, before, level)
        if level is None:
            self.levels.pop(key, None)
            for keys in (self._limits, self._uses):
                keys.get(key[0], {}).pop(key, None)
        else:
            self.keep(key, level)

    def keep(self, key: Key, level: LimitState) -> None:
        """Set a limit's state; the caller updates the totals of shares, and the ends."""
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
        self,
        teams: dict[tuple[str, str], ReservedTotals],
        datasets: dict[str, Sums],
        ends: dict[str, Ends],
    ) -> None:
        """Set the totals of shares, and the ends, of the limits just set with `keep`."""
        self._reserved_in.update(teams)
        self._reserved.update(datasets)
        self._ends.update(ends)

    def __iter__(self) -> Iterator[LimitState]:
        """Yield every limit, by dataset, scope, team and name."""
        for _, level in sorted(self.levels.items()):
            yield level

    def rows(self, known: Container[str] = ()) -> Iterator[tuple[bytes, bytes]]:
        """Return each row for `state` as (key, value), but not of known keys."""
        return unknown_rows(
            self,
            lambda level: scope_row_key(*level.key),
            lambda level: encode(row_of(level)),
            known,
        )


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


def _until(level: LimitState | None) -> int | None:
    return None if level is None else level.until


def _moves_end(before: LimitState | None, after: LimitState | None) -> bool:
    if before is not None and after is not None and before.rule is after.rule:
        return False  # a grant
    return _until(before) != _until(after)


def _ends_after(ends: Ends, key: Key, before: LimitState | None, after: LimitState | None) -> Ends:
    """Return a dataset's ends after a change of one limit."""
    was, now = _until(before), _until(after)
    found = [each for each in ends if each != (was, key)]
    if now is not None:
        insort(found, (now, key))
    return tuple(found)


def end_limits(
    store: LimitStore, dataset: str, at: int, sequence: int | None
) -> Iterable[LimitState]:
    """End the limits of a dataset that are over by now, with their shares; return them.

    A decision calls this before it reads a limit, so that nobody's share outlives its end in the
    totals. Each limit ends once, so this is O(1) a decision, over all decisions.

    Args:
        at: the decision's time, milliseconds since 1970.
        sequence: the decision's number in the dataset; None if it has none.
    """
    ended = list[LimitState]()
    for until, key in store.ends(dataset):
        if until > at:
            break
        state = store.get(key)
        if state is not None and state.until is not None:
            ended.append(after_end(state, state.sequence if sequence is None else sequence))
            store.put(ended[-1])
    return ended


def as_of(store: LimitStore, dataset: str, at: int) -> LimitStore:
    """Return the limits of a dataset at a time, for readers: those that have ended are over."""
    ends = store.ends(dataset)
    if not ends or ends[0][0] > at:
        return store
    now = LimitOverlay(store)
    end_limits(now, dataset, at, None)
    return now


class LimitOverlay:
    """A store with some limits replaced. It does not change the store below it."""

    __slots__ = ("_below", "_ends", "_get", "_levels", "_reserved", "_reserved_in")

    def __init__(self, below: LimitStore) -> None:
        self._below = below
        self._get: Callable[[Key], LimitState | None] = below.get
        self._levels: dict[Key, LimitState] = {}
        self._reserved_in: dict[tuple[str, str], ReservedTotals] = {}
        self._reserved: dict[str, Sums] = {}
        self._ends: dict[str, Ends] = {}

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
        return self._with_replaced(dataset, self._below.of_dataset(dataset))

    def limits_of(self, dataset: str) -> list[LimitState]:
        """As `LimitTable.limits_of`, with the replaced limits."""
        found = self._with_replaced(dataset, self._below.limits_of(dataset))
        return [level for level in found if level.rule is not None]

    def _with_replaced(self, dataset: str, below: Iterable[LimitState]) -> list[LimitState]:
        replaced = {key: level for key, level in self._levels.items() if key[0] == dataset}
        return [*({level.key: level for level in below} | replaced).values()]

    def ends(self, dataset: str) -> Ends:
        """As `LimitTable.ends`, with the replaced limits."""
        ends = self._ends.get(dataset)
        return self._below.ends(dataset) if ends is None else ends

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
        if _moves_end(before, level):
            self._set(self._ends, key[0], _ends_after(self.ends(key[0]), key, before, level))
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
        table.take_totals(self._reserved_in, self._reserved, self._ends)
