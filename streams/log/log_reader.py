"""Reads a whole decision log from a ledger's file, an exported log, or Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from streams.errors import InputInvalid

if TYPE_CHECKING:
    from aiokafka import TopicPartition

    from accountant.replay.sealed_log import SealSnapshot
    from accountant.replay.state_comparison import StateRows
    from streams.kafka.deployment import Deployment
    from streams.kafka.wire.reader import StableReader
    from streams.kafka.wire.security import Cluster

_SQLITE: Final = b"SQLite format 3\x00"
_MOST_LINE: Final = 4 << 20  # far above any decision
_FETCHED: Final = 1000
_OF_DECISIONS: Final = b'"previous":"sha256:'  # only decisions have this


class Part(NamedTuple):
    """One partition of a log.

    Attributes:
        number: of the partition.
        values: the bytes of its decisions; read them before the next part.
        total: the number of decisions, if it is known.
        head: number and hash of the last decision according to `state`, if it is known.
        sealed: the seal, if decisions are in an archive that --archive does not name.
        archived: number and hash of the last archived decision, according to the seal.
        state: the rows of `state`, None if there are none. The log contains the decision that
            they end at, and perhaps later ones.
        gapless: whether the inputs' offsets have no gaps, as in a ledger's file.
        first: number of the first value, None if it is not known.
        ordered: whether `decided_at` never falls: the clock was never reset. False if unknown.
        newest_first: yields the same values from the end; None if only `values` can be read.
    """

    number: int
    values: Iterator[bytes]
    total: int | None = None
    head: tuple[int, str] | None = None
    sealed: SealSnapshot | None = None
    archived: tuple[int, str] | None = None
    state: StateRows | None = None
    gapless: bool = False
    first: int | None = 0
    ordered: bool = False
    newest_first: Callable[[], Iterator[bytes]] | None = None

    def numbers(self) -> Iterator[int]:
        """Yield the expected number of each value; `first` must be known."""
        if self.sealed is not None and self.archived is not None:
            return chain([0], count(self.archived[0] + 1))
        assert self.first is not None
        return count(self.first)


class PartSize(NamedTuple):
    """How long a partition of a log is, about.

    Attributes:
        number: of the partition.
        records: how many decisions it has, or a few more.
    """

    number: int
    records: int


class LogSource(Protocol):
    """A log of one or more partitions."""

    def parts(self, *, since: int | None = None) -> Iterator[Part]:
        """Yield each partition.

        Args:
            since: a time in milliseconds since 1970. A log with an index by time may leave out
                decisions before the first one made at or after it.
        Raises: Unavailable, Refused, LogDamaged. InputInvalid: the log has no archives.
        """
        ...


class PartitionedLog(LogSource, Protocol):
    """A log that may have several partitions, each of which can be read alone."""

    def parts(self, *, since: int | None = None, only: int | None = None) -> Iterator[Part]:
        """Yield each partition.

        Args:
            since: as of `LogSource`.
            only: yield only the partition at this place in the log.
        Raises: Unavailable, Refused, LogDamaged.
        """
        ...

    def sizes(self) -> list[PartSize]:
        """Return the size of each partition, in order; nothing of a log with only one.

        Raises: Unavailable, Refused.
        """
        ...


@dataclass(frozen=True, slots=True)
class SqliteLog(LogSource):
    """The log in an embedded ledger's file; a server may be writing to it.

    Args:
        archives: all archives of its beginning, in order, or none.
    """

    path: Path
    archives: tuple[Path, ...] = ()

    def parts(self, *, since: int | None = None) -> Iterator[Part]:
        from accountant.replay.state_comparison import rows_at_one_moment
        from streams.embedded.journal import first_since
        from streams.embedded.ledger_file import partition_row, read_decisions, reader, sound_rows
        from streams.embedded.sealed_log import read_seal
        from streams.log.archives import join_archives

        with reader(self.path) as db, db:  # one transaction, so that all reads see one state
            last = db.execute("SELECT max(sequence) FROM decisions").get
            row = partition_row(db)  # raises if the row is damaged
            state = rows_at_one_moment(dict(sound_rows(db)), 0)
            found = read_seal(db)
            begin = 0 if found is None else found[1].archived + 1  # of what is in the file
            first = begin if since is None else max(begin, first_since(db, since))
        # Decisions that are appended from now on are left out, so that the total is right.
        total = 0 if last is None else int(last) + 1
        part = Part(
            0,
            read_decisions(self.path, first=first, limit=total - first),
            total - first,
            None if state is None else state.end,
            state=state,
            gapless=True,
            first=first,
            ordered=row is not None and row.clock_resets.number == 0,
            newest_first=lambda: _newest_first(self.path, first, total),
        )
        if found is None:
            if self.archives:
                hint = "leave --archive out"
                raise InputInvalid(f"the log in {self.path} has no archives", hint=hint)
            yield part
            return
        sealed, seal = found
        archived = seal.archived, seal.head
        if self.archives:
            rest = read_decisions(self.path, first=begin, limit=total - begin)
            values = join_archives(self.archives, rest, _MOST_LINE)
            yield part._replace(
                values=values, total=total, archived=archived, first=0, newest_first=None
            )
        elif part.ordered and first > begin:
            yield part  # the archived decisions are older than `since`
        else:
            there = total - seal.archived  # without the archived decisions, but with decision 0
            values = read_decisions(self.path, limit=there)
            newest_first = partial(_newest_first, self.path, begin, total)
            yield part._replace(
                values=values,
                total=there,
                sealed=sealed,
                archived=archived,
                first=0,
                newest_first=newest_first,
            )


def _newest_first(path: Path, first: int, end: int) -> Iterator[bytes]:
    """Yield the decisions of a file from the one before `end` back to `first`."""
    from streams.embedded.ledger_file import numbered_decisions, reader

    with reader(path) as db:
        while end > first:
            start = max(first, end - _FETCHED)
            page = [*numbered_decisions(db, first=start, limit=end - start)]
            yield from (value for number, value in reversed(page) if number < end)
            end = start


@dataclass(frozen=True, slots=True)
class ExportedLog(PartitionedLog):
    """JSON lines from `log export`, `log archive` or `decide`, compressed or not.

    The partitions follow one another.
    """

    path: Path

    def sizes(self) -> list[PartSize]:
        sizes: list[PartSize] = []
        for part in self.parts():
            first = next(part.values)
            if not sizes and not _is_of_several(first):
                break  # do not read the file a second time
            sizes.append(PartSize(part.number, 1 + sum(1 for _ in part.values)))
        return sizes

    def parts(self, *, since: int | None = None, only: int | None = None) -> Iterator[Part]:
        from streams.log.archives import opened
        from streams.ndjson import read_lines

        with opened(self.path) as file:
            lines = _numbered(read_lines(file, _MOST_LINE))
            for place, (number, group) in enumerate(groupby(lines, key=lambda pair: pair[0])):
                if only in (None, place):
                    yield Part(number, (line for _, line in group))
                if only == place:
                    return


def _is_of_several(first: bytes) -> bool:
    """Tell whether a first record is the genesis of a ledger with several partitions."""
    from accountant.errors import MadeByOtherVersion
    from accountant.records import DECODE_ERRORS, decode_decision

    try:
        genesis = decode_decision(first).genesis
    except (*DECODE_ERRORS, MadeByOtherVersion):
        return False
    return genesis is not None and genesis.partitions > 1


def _numbered(lines: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield each line with the partition number from the latest genesis record."""
    from accountant.errors import MadeByOtherVersion
    from accountant.records import DECODE_ERRORS, decode_decision

    number = 0
    for line in lines:
        if b'"genesis"' in line:
            # An unreadable line is left to the audit, which reports its position.
            with suppress(*DECODE_ERRORS, MadeByOtherVersion):
                genesis = decode_decision(line).genesis
                number = number if genesis is None else genesis.partition
        yield number, line


@dataclass(frozen=True, slots=True)
class KafkaLog(PartitionedLog):
    """The log on Kafka, up to the last commit before it was opened."""

    deployment: Deployment

    def sizes(self) -> list[PartSize]:
        return asyncio.run(_sizes(self.deployment))

    def parts(self, *, since: int | None = None, only: int | None = None) -> Iterator[Part]:
        from aiokafka import TopicPartition

        from streams.kafka.log.topics import check_partition_counts

        # Without this check a missing topic would time out, and a missing partition would go
        # unnoticed. An auditor may not be allowed to see other topics.
        asyncio.run(check_partition_counts(self.deployment, ["decisions", "state"]))
        topic = self.deployment.topics.decisions
        for number in range(self.deployment.partitions) if only is None else (only,):
            place = TopicPartition(topic, number)
            with asyncio.Runner() as runner:
                # `state` is read first, so that the log reaches at least as far.
                state = runner.run(_state(self.deployment, number))
                reader = runner.run(_opened(self.deployment.cluster, place))
                try:
                    begin, end = reader.spans[place]
                    start: int | None = begin
                    if since is not None:
                        start = runner.run(reader.offset_at(place, since))
                    first = end if start is None else max(begin, start)
                    records = partial(_values, runner, reader, place)
                    yield Part(
                        number,
                        records(first, end),
                        state=state,
                        first=0 if first == begin else None,
                        ordered=state is not None and state.resets == 0,
                        newest_first=partial(_records_newest_first, records, first, end),
                    )
                finally:
                    runner.run(reader.close())


async def _sizes(deployment: Deployment) -> list[PartSize]:
    """Return the offsets that the partitions of a log have; a transaction takes one of its own."""
    from aiokafka import TopicPartition

    from streams.kafka.log.topics import check_partition_counts
    from streams.kafka.wire.reader import StableReader

    await check_partition_counts(deployment, ["decisions"])
    topic = deployment.topics.decisions
    places = [TopicPartition(topic, number) for number in range(deployment.partitions)]
    async with StableReader(deployment.cluster, places) as reader:
        spans = [reader.spans[place] for place in places]
    return [PartSize(number, span.end - span.begin) for number, span in enumerate(spans)]


async def _state(deployment: Deployment, partition: int) -> StateRows | None:
    """Return the rows of a partition's `state`.

    Each transaction ends with the partition's own row. The reader hides rows after the last one:
    they are not committed yet.
    """
    from aiokafka import TopicPartition

    from accountant.replay.state_comparison import rows_at_one_moment
    from streams.kafka.wire.reader import StableReader

    place, rows = TopicPartition(deployment.topics.state, partition), dict[bytes, bytes | None]()
    async with StableReader(deployment.cluster, [place]) as reader:
        async for record in reader.read(place, reader.spans[place].begin):
            if record.value is None:
                rows.pop(record.key, None)
            else:
                rows[record.key] = record.value
    return rows_at_one_moment(rows, partition)


async def _opened(cluster: Cluster, place: TopicPartition) -> StableReader:
    from streams.kafka.wire.reader import StableReader

    return await StableReader(cluster, [place]).__aenter__()


def _values(
    runner: asyncio.Runner, reader: StableReader, place: TopicPartition, start: int, end: int
) -> Iterator[bytes]:
    """Yield the committed records from one offset up to but not including another."""
    records = reader.read(place, start)

    async def some() -> list[Any]:
        fetched: list[Any] = []
        async for record in records:
            fetched.append(record)
            if len(fetched) == _FETCHED or record.offset >= end:
                break
        return fetched

    while fetched := runner.run(some()):
        yield from (bytes(record.value) for record in fetched if record.offset < end)
        if fetched[-1].offset >= end:
            return


def _records_newest_first(
    records: Callable[[int, int], Iterator[bytes]], first: int, end: int
) -> Iterator[bytes]:
    """Yield the committed records from an end back to an offset."""
    while end > first:
        start = max(first, end - _FETCHED)
        yield from reversed([*records(start, end)])
        end = start


def log_source(address: str, archives: Sequence[Path] = ()) -> LogSource:
    """Return the log that a path or an address names.

    Args:
        archives: of the beginning of a ledger's file, in order.
    Raises: AddressInvalid, InputInvalid, NoSuchLedger, Refused, FileNotFoundError.
    """
    source = _source(address)
    if not archives:
        return source
    if not isinstance(source, SqliteLog):
        hint = "name the ledger's file: --url sqlite:///FILE"
        raise InputInvalid("--archive needs a ledger's file", hint=hint)
    return replace(source, archives=tuple(archives))


def _source(address: str) -> LogSource:
    from streams.address import ledger_url
    from streams.settings import load_command

    if "://" not in address:
        return _of_file(Path(address))
    where = ledger_url(address)
    if where.kind == "sqlite":
        path = Path(where.target)
        if not path.is_file():
            from streams.client.connection.connect import check_exists

            check_exists(path)
        return _of_file(path)
    if where.kind == "kafka":
        from streams.kafka.deployment import deployment_of

        return KafkaLog(deployment_of(load_command(url=address)))
    raise InputInvalid(
        "the whole log cannot be read over HTTP",
        hint="name the log itself: --url sqlite:///FILE or --url kafka://HOST:PORT. A server shows "
        "its end at `GET /head`, and a dataset's decisions at `GET /datasets/NAME/requests`",
    )


def _of_file(path: Path) -> LogSource:
    with path.open("rb") as file:
        begin = file.read(len(_SQLITE))
        is_sqlite = begin == _SQLITE
        if not is_sqlite:
            from streams.log.archives import opened

            with opened(path) as lines:
                begin = lines.read(_MOST_LINE)
    if not is_sqlite and not _was_log(begin):
        hint = "name a ledger's file, or the output of `accountant log export` or `decide`"
        raise InputInvalid(f"{path} is not a decision log", hint=hint)
    return SqliteLog(path) if is_sqlite else ExportedLog(path)


def _was_log(begin: bytes) -> bool:
    """Tell whether a file with this beginning is a log, even a damaged one.

    The audit reports damage; this only rejects files that never were a log.
    """
    import msgspec

    from accountant.records import DECODE_ERRORS

    begin = begin.lstrip()
    line = begin.split(b"\n", 1)[0]
    for text in (line, begin):  # other JSON may have several lines
        with suppress(*DECODE_ERRORS):
            found = msgspec.json.decode(text)
            decision = isinstance(found, dict) and found.get("type") == "decision"
            return decision or _OF_DECISIONS in line
    return not begin or line.startswith(b"{") or _OF_DECISIONS in line
