"""The rows of `state`, and the dead letters."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from tests.faults.oracle.dataset import Dataset
from tests.faults.oracle.disagreement import Disagreement, agree
from tests.faults.oracle.expected import Fields, compare
from tests.faults.oracle.partition import Partition
from tests.faults.oracle.snapshot import dataset_row, line, other_rows, partition_row, rows_of

_KEY_BYTES = 1024
_VALUE_BYTES = 4096


class Letter(NamedTuple):
    """A dead letter.

    Attributes:
        headers: those on Kafka; of a file `reason`, `source` and `offset`.
    """

    key: bytes | None
    value: bytes | None
    headers: Mapping[str, str]


def check_state(partition: Partition, rows: Mapping[bytes, bytes]) -> None:
    """Check that the rows of `state` follow from the log.

    Raises: Disagreement.
    """
    own = b'{"partition":%d}' % partition.partition
    found = {key: value for key, value in rows.items() if key != own}
    if own not in rows:
        if partition.number > 0:
            raise Disagreement("state", None, "a row of the partition", partition.partition)
        agree("state", sorted(found), [], partition.partition)
        return
    predicted = [*map(str.encode, partition.datasets), *other_rows(partition)]
    agree("state", sorted(found), sorted(predicted), partition.partition)
    for dataset in partition.datasets.values():
        _check_rows(dataset, rows_of(dataset), found)
    row = partition_row(partition)
    total = sum(zlib.crc32(value) for value in found.values())
    if "resets" in row:
        total += zlib.crc32(f"[{row['resets']},{row['reset_at']}]".encode())
    row["checksum"] = f"{total % 2**64:016x}"
    _as_state(json.loads(rows[own]), row, own)


def check_rows_of(
    partition: Partition, rows: Mapping[bytes, bytes], datasets: Collection[str]
) -> None:
    """Check the rows of some datasets alone.

    Raises: Disagreement.
    """
    for name in datasets:
        own, others = name.encode(), f'{{"dataset":"{name}",'.encode()
        found = {key: row for key, row in rows.items() if key == own or key.startswith(others)}
        dataset = partition.datasets[name]
        predicted = rows_of(dataset)
        agree("state", sorted(found), sorted([own, *predicted]), name)
        _check_rows(dataset, predicted, found)


def _check_rows(
    dataset: Dataset, predicted: Mapping[bytes, Fields], rows: Mapping[bytes, bytes]
) -> None:
    own = dataset.name.encode()
    _as_state(json.loads(rows[own]), dataset_row(dataset), own)
    for key, row in predicted.items():
        # A seal holds the hash of their bytes.
        agree("state", rows[key], line(row).rstrip(), key)


def _as_state(said: Fields, predicted: Fields, key: bytes) -> None:
    try:
        compare(said, predicted, key)
    except Disagreement as error:
        raise Disagreement("state", {error.about: error.said}, error.predicted, key) from None


def check_letters(partition: Partition, letters: Sequence[Letter], *, kafka: bool) -> None:
    """Check that the dead letters are exactly the predicted ones, in order.

    Raises: Disagreement.
    """
    predicted = []
    for source, sent, reason in partition.letters:
        headers: dict[str, Any] = {
            "reason": reason,
            "source": source,
            "offset": str(sent.offset),
        }
        if kafka:
            headers["sha256"] = hashlib.sha256(sent.value or b"").hexdigest()
            if sent.key is not None and len(sent.key) > _KEY_BYTES:
                headers["key_sha256"] = hashlib.sha256(sent.key).hexdigest()
        key = sent.key if sent.key is None or not kafka else sent.key[:_KEY_BYTES]
        value = (sent.value or b"")[:_VALUE_BYTES]
        predicted.append((key if kafka else None, value, headers))
    said = [(each.key, each.value or b"", dict(each.headers)) for each in letters]
    agree("dead_letters", said, predicted, partition.partition)
