"""Who used a dataset, wherever the ledger is; an index is read, and never written."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streams.cli.reading.dataset_reader import existing, fail_unopened, reader

if TYPE_CHECKING:
    from accountant.views.usage import By
    from streams.index import UsageIndex
    from streams.kafka.deployment import Deployment


def usage_rows(
    url: str, dataset: str, by: By, token_file: Path | None = None
) -> list[dict[str, Any]]:
    """Return the rows of a dataset; its key is under the name of what it is.

    Raises: Unavailable, Refused, LogDamaged.
    """
    if reads_log(url):
        index, partition = indexed(url, dataset)
        with contextlib.closing(index), index.at_last() as rows:
            if not rows.knows(dataset, partition):
                fail_unopened(dataset)
            return [row.named(by) for row in rows.usage(dataset, by)]
    with reader(url, token_file) as ledger:
        found = ledger.usage_by(dataset, by)
        if not found:
            existing(ledger, dataset)
    return [row.named(by) for row in found]


def reads_log(url: str) -> bool:
    """Tell whether usage is counted from the log here: of an export, and on Kafka.

    A service on Kafka would read every partition first; a command reads the dataset's alone.
    """
    from streams.address import AddressInvalid, ledger_url

    try:
        return ledger_url(url).kind == "kafka"
    except AddressInvalid:  # a path
        return True


def indexed(url: str, dataset: str) -> tuple[UsageIndex, int | None]:
    """Return an index of this process alone that has taken in all decisions on a dataset.

    With the number of the only partition that it was compared with, if there are others.
    """
    from streams.cli.reading.log_reader import KafkaLog, log_source
    from streams.index import UsageIndex

    source = log_source(url)
    if isinstance(source, KafkaLog):
        return _on_kafka(source.deployment, dataset)
    index = UsageIndex.temporary()
    for part in source.parts():
        index.catch_up(_Streamed(part.values), partition=part.number)
    return index, None


def _on_kafka(deployment: Deployment, dataset: str) -> tuple[UsageIndex, int]:
    """Return an index of the partition that has a dataset, begun with a copy if there is one."""
    import asyncio

    from accountant.partition.key_hash import partition_of
    from streams.cli.printing.output import progress
    from streams.index import UsageIndex
    from streams.kafka.blocking_reader import BlockingLogReader
    from streams.kafka.topics import check_partition_counts
    from streams.settings import load_command

    # A missing topic would only ever time out, a partition too few would be another one.
    asyncio.run(check_partition_counts(deployment))
    index = UsageIndex.temporary(load_command().index)
    partition = partition_of(dataset.encode(), deployment.partitions)
    with (
        contextlib.closing(BlockingLogReader(deployment).open(partition)) as log,
        progress() as bars,
    ):
        task = bars.add_task(f"reading partition {partition}", total=None)

        class Shown:
            """The log, with the number of decisions read on the terminal."""

            close, beginning = log.close, log.beginning

            def read(self, first: int, most: int) -> Sequence[bytes]:
                """Do as the log does."""
                values = log.read(first, most)
                bars.update(task, completed=first + len(values))
                return values

        index.catch_up(Shown(), partition=partition)
    return index, partition


class _Streamed:
    """A log that is read once, from its first decision on."""

    def __init__(self, values: Iterator[bytes]) -> None:
        self._values = values

    def read(self, first: int, most: int) -> list[bytes]:
        """Return the next decisions; `first` is asked for in order."""
        return list(islice(self._values, most))

    def beginning(self) -> None:
        """Nothing of it was archived."""

    def close(self) -> None:
        """There is nothing to let go of."""
