"""Where a decision log can be read whole: a ledger's file, an exported log, or Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, count, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from streams.cli.printing.exits import Exit, fail

if TYPE_CHECKING:
    from aiokafka import TopicPartition

    from accountant.replay.sealed_log import Sealed
    from accountant.replay.state_comparison import StateRows
    from streams.kafka.deployment import Deployment
    from streams.kafka.wire.reader import StableReader
    from streams.kafka.wire.security import Cluster

_SQLITE: Final = b"SQLite format 3\x00"
_MOST_LINE: Final = 4 << 20  # far above any decision
_FETCHED: Final = 1000
_OF_DECISIONS: Final = b'"previous":"sha256:'  # nothing else has it


class Part(NamedTuple):
    """One partition of a log.

    Attributes:
        number: of the partition.
        values: the bytes of its decisions, to be read before the next part is asked for.
        total: how many they are, if that is known.
        head: number and hash of the last one as `state` has them, if that is known.
        sealed: what stands for decisions that are in an archive which was not given.
        archived: number and hash of the last decision in an archive, as the log's seal has them.
        state: the rows of `state`, None where there are none. The log holds the decision that
            they end at, and perhaps later ones.
        gapless: each input of the log has the next offset, as in a ledger's file.
    """

    number: int
    values: Iterator[bytes]
    total: int | None = None
    head: tuple[int, str] | None = None
    sealed: Sealed | None = None
    archived: tuple[int, str] | None = None
    state: StateRows | None = None
    gapless: bool = False

    def numbers(self) -> Iterator[int]:
        """Yield the number that each value must have."""
        if self.sealed is None or self.archived is None:
            return count()
        return chain([0], count(self.archived[0] + 1))


class LogSource(Protocol):
    """A log of one or more partitions."""

    def parts(self) -> Iterator[Part]:
        """Yield each partition.

        Raises: Unavailable, Refused, LogDamaged.
        """
        ...


@dataclass(frozen=True, slots=True)
class SqliteLog(LogSource):
    """The log in an embedded ledger's file, read beside its writer.

    Args:
        archives: of its beginning, all of them in their order, or none.
    """

    path: Path
    archives: tuple[Path, ...] = ()

    def parts(self) -> Iterator[Part]:
        from accountant.replay.state_comparison import rows_at_one_moment
        from streams.cli.reading.archives import joined
        from streams.embedded.ledger_file import partition_row, read_decisions, reader, sound_rows
        from streams.embedded.sealed_log import read_seal

        with reader(self.path) as db, db:  # one transaction, so one moment: a writer may be at work
            last = db.execute("SELECT max(sequence) FROM decisions").get
            partition_row(db)  # raises where it is damaged
            state = rows_at_one_moment(dict(sound_rows(db)), 0)
            found = read_seal(db)
        head = None if state is None else state.end
        # What is appended from now on is left out, so that the count is right.
        total = 0 if last is None else int(last) + 1
        if found is None:
            if self.archives:
                fail(Exit.USAGE, f"nothing of {self.path} was archived: leave --archive out")
            yield Part(
                0, read_decisions(self.path, most=total), total, head, state=state, gapless=True
            )
            return
        sealed, seal = found
        archived = seal.archived, seal.head
        there = total - seal.archived  # without the archived ones, but with decision 0
        if self.archives:
            rest = read_decisions(self.path, first=seal.archived + 1, most=there - 1)
            values = joined(self.archives, rest, _MOST_LINE)
            yield Part(0, values, total, head, archived=archived, state=state, gapless=True)
        else:
            values = read_decisions(self.path, most=there)
            yield Part(0, values, there, head, sealed, archived, state, gapless=True)


@dataclass(frozen=True, slots=True)
class ExportedLog(LogSource):
    """JSON lines, as `log export`, `log archive` and `decide` write them, perhaps compressed.

    One partition after another.
    """

    path: Path

    def parts(self) -> Iterator[Part]:
        from streams.cli.reading.archives import opened
        from streams.cli.reading.json_lines import read_lines

        with opened(self.path) as file:
            lines = _numbered(read_lines(file, _MOST_LINE))
            for number, group in groupby(lines, key=lambda pair: pair[0]):
                yield Part(number, (line for _, line in group))


def _numbered(lines: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield each line with the partition that its log's genesis names."""
    from accountant.errors import MadeByOtherVersion
    from accountant.records import DECODE_ERRORS, decode_decision

    number = 0
    for line in lines:
        if b'"genesis"' in line:
            # What cannot be read is left to the auditor, who says where it stands.
            with suppress(*DECODE_ERRORS, MadeByOtherVersion):
                genesis = decode_decision(line).genesis
                number = number if genesis is None else genesis.partition
        yield number, line


@dataclass(frozen=True, slots=True)
class KafkaLog:
    """The log on Kafka: what is committed when it is opened."""

    deployment: Deployment

    def parts(self) -> Iterator[Part]:
        from aiokafka import TopicPartition

        from streams.kafka.topics import check_partition_counts

        # A missing topic would only ever time out, a partition too few would pass for all. An
        # auditor may not see the others.
        asyncio.run(check_partition_counts(self.deployment, ["decisions", "state"]))
        topic = self.deployment.topics.decisions
        for number in range(self.deployment.partitions):
            place = TopicPartition(topic, number)
            with asyncio.Runner() as runner:
                # Before the log is opened, which then reaches as far.
                state = runner.run(_state(self.deployment, number))
                reader = runner.run(_opened(self.deployment.cluster, place))
                try:
                    records = reader.read(place, reader.spans[place].begin)
                    yield Part(number, _values(runner, records), state=state)
                finally:
                    runner.run(reader.close())


async def _state(deployment: Deployment, partition: int) -> StateRows | None:
    """Return the rows of a partition's `state`.

    Each transaction ends with the partition's own row: what was written after the last of these is
    not committed yet, and the reader does not show it.
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


def _values(runner: asyncio.Runner, records: AsyncIterator[Any]) -> Iterator[bytes]:
    async def some() -> list[bytes]:
        fetched: list[bytes] = []
        async for record in records:
            fetched.append(bytes(record.value))
            if len(fetched) == _FETCHED:
                break
        return fetched

    while fetched := runner.run(some()):
        yield from fetched


def log_source(address: str, archives: Sequence[Path] = ()) -> LogSource:
    """Return the log that a path or an address names.

    Args:
        archives: of the beginning of a ledger's file, in their order.
    Raises: AddressInvalid: it names none; NoSuchLedger, Refused: of an address; FileNotFoundError.
    """
    source = _source(address)
    if not archives:
        return source
    if not isinstance(source, SqliteLog):
        fail(Exit.USAGE, "--archive goes with a ledger's file: --url sqlite:///FILE")
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
            from streams.client.connect import check_exists

            check_exists(path)
        return _of_file(path)
    if where.kind == "kafka":
        from streams.kafka.deployment import deployment_of

        return KafkaLog(deployment_of(load_command(url=address)))
    return fail(
        Exit.USAGE,
        "a gateway does not serve the whole log",
        hint="the log itself: --url sqlite:///FILE, or --url kafka://HOST:PORT",
    )


def _of_file(path: Path) -> LogSource:
    with path.open("rb") as file:
        begin = file.read(len(_SQLITE))
        is_sqlite = begin == _SQLITE
        if not is_sqlite:
            from streams.cli.reading.archives import opened

            with opened(path) as lines:
                begin = lines.read(_MOST_LINE)
    if not is_sqlite and not _was_log(begin):
        hint = "a ledger's file, or what `accountant log export` or `accountant decide` wrote"
        fail(Exit.USAGE, f"{path} is not a decision log", hint=hint)
    return SqliteLog(path) if is_sqlite else ExportedLog(path)


def _was_log(begin: bytes) -> bool:
    """Tell whether a file that begins like this is a log, even a damaged one.

    Damage is the auditor's to judge; this only tells apart what never was a log.
    """
    import msgspec

    from accountant.records import DECODE_ERRORS

    begin = begin.lstrip()
    line = begin.split(b"\n", 1)[0]
    for text in (line, begin):  # other JSON may stand on several lines
        with suppress(*DECODE_ERRORS):
            found = msgspec.json.decode(text)
            decision = isinstance(found, dict) and found.get("type") == "decision"
            return decision or _OF_DECISIONS in line
    return not begin or line.startswith(b"{") or _OF_DECISIONS in line
