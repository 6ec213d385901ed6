"""Reads the usage of a dataset from any ledger; an index is read, and never written."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streams.cli.reading.dataset_reader import (
    dataset_names,
    fail_unknown_dataset,
    perhaps_hidden,
    read_beside,
    reader,
)

if TYPE_CHECKING:
    from accountant.views.usage import By
    from streams.index import UsageIndex
    from streams.kafka.deployment import Deployment


def usage_rows(
    url: str, dataset: str, by: By, token_file: Path | None = None, *, beside: bool = False
) -> tuple[list[dict[str, Any]], str]:
    """Return the rows of a dataset, each with its key under the name of the grouping.

    Args:
        beside: also return what `read_beside` does, from a ledger; "" from an export.
    Raises: Unavailable, Refused, LogDamaged.
    """
    if reads_log(url):
        index, partition = build_index(url, dataset)
        with contextlib.closing(index), index.at_last() as rows:
            if not rows.knows(dataset, partition):
                fail_unknown_dataset(dataset, rows.datasets())
            return [row.as_named_row(by) for row in rows.usage(dataset, by)], ""
    from streams.client import UnknownDataset

    with reader(url, token_file) as ledger:
        try:
            found = ledger.usage_by(dataset, by)
        except UnknownDataset:
            fail_unknown_dataset(dataset, dataset_names(ledger), perhaps_hidden(ledger))
        words = read_beside(ledger, dataset) if beside else ""
    return [row.as_named_row(by) for row in found], words


def reads_log(url: str) -> bool:
    """Tell whether this command counts usage from the log: of an export, and on Kafka.

    On Kafka a service would read every partition first; a command reads only the dataset's.
    """
    from streams.address import AddressInvalid, ledger_url

    try:
        return ledger_url(url).kind == "kafka"
    except AddressInvalid:  # a path
        return True


def build_index(url: str, dataset: str) -> tuple[UsageIndex, int | None]:
    """Return a private index with all decisions on a dataset.

    On Kafka also the number of the only partition that it has read.
    """
    from streams.cli.reading.log_at import log_at
    from streams.index import UsageIndex
    from streams.kafka.log.kafka_log import KafkaLog

    source = log_at(url)
    if isinstance(source, KafkaLog):
        return _on_kafka(source.deployment, dataset)
    index = UsageIndex.temporary()
    for part in source.parts():
        index.take_all(part.number, part.values)
    return index, None


def _on_kafka(deployment: Deployment, dataset: str) -> tuple[UsageIndex, int]:
    """Return an index of a dataset's partition, built on a copy of the server's if it exists."""
    import asyncio

    from streams.cli.printing.output import progress
    from streams.index import UsageIndex
    from streams.kafka.log.genesis import check_placement
    from streams.kafka.log.kafka_log import KafkaLog
    from streams.kafka.log.topics import check_partition_counts
    from streams.settings import load_command

    # Without these checks a missing topic would time out, and a wrong number of partitions or a
    # wrong placement would select the wrong partition.
    asyncio.run(check_partition_counts(deployment))
    asyncio.run(check_placement(deployment))
    index = UsageIndex.temporary(load_command().index)
    partition = deployment.partition_of(dataset)
    with contextlib.closing(KafkaLog(deployment)) as log, progress() as bars:
        task = bars.add_task(f"reading partition {partition}", total=None)
        index.catch_up(
            log, partition=partition, progress=lambda count: bars.update(task, completed=count)
        )
    return index, partition
