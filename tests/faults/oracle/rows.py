"""The rows of `state`, and the dead letters."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tests.faults.oracle.disagreement import Disagreement, agree
from tests.faults.oracle.expected import Fields, compare
from tests.faults.oracle.partition import Partition
from tests.faults.oracle.snapshot import dataset_row, line, other_rows, partition_row

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
    others = other_rows(partition)
    datasets = {name.encode(): dataset for name, dataset in partition.datasets.items()}
    agree("state", sorted(found), sorted({**datasets, **others}), partition.partition)
    for key, value in found.items():
        if key in datasets:
            _as_state(json.loads(value), dataset_row(datasets[key]), key)
        else:
            # A seal holds the hash of their bytes.
            agree("state", value, line(others[key]).rstrip(), key)
    row = partition_row(partition)
    total = sum(zlib.crc32(value) for value in found.values())
    if "resets" in row:
        total += zlib.crc32(f"[{row['resets']},{row['reset_at']}]".encode())
    row["checksum"] = f"{total % 2**64:016x}"
    _as_state(json.loads(rows[own]), row, own)


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
