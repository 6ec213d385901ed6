"""The program on PostgreSQL: charge batches of requests to their datasets' running sums.

A batch is one transaction, which also stores the offsets that it has read up to: a restart goes on
behind the last one committed. It prints the number of answers after each commit. It runs in the
environment of requirements/peers.txt. Arguments: bootstrap, source topic, partitions, connection,
limit (in units of 1e-12), bytes of an answer, records of a batch.
"""

from __future__ import annotations

import sys
from decimal import Decimal
from typing import Any

import orjson
import psycopg
from confluent_kafka import Consumer, TopicPartition

_DIGITS = 12
_WAIT_S = 0.1
_REQUEST_BYTES = 251
_TABLES = """
    CREATE TABLE sums (dataset text PRIMARY KEY, total bigint NOT NULL);
    CREATE TABLE offsets (partition int PRIMARY KEY, next_offset bigint NOT NULL);
    CREATE TABLE answers (
        partition int, source_offset bigint, dataset text NOT NULL, body text NOT NULL,
        PRIMARY KEY (partition, source_offset)
    )
"""
_SET_SUMS = """
    INSERT INTO sums SELECT * FROM unnest(%s::text[], %s::bigint[])
    ON CONFLICT (dataset) DO UPDATE SET total = excluded.total
"""
_SET_OFFSETS = """
    INSERT INTO offsets SELECT * FROM unnest(%s::int[], %s::bigint[])
    ON CONFLICT (partition) DO UPDATE SET next_offset = excluded.next_offset
"""


def charge(
    cursor: psycopg.Cursor[Any], messages: list[Any], limit: int, filler: str
) -> list[tuple[int, int, str, str]]:
    """Charge a batch in the open transaction; return the rows of its answers."""
    requests = [orjson.loads(message.value()) for message in messages]
    touched = list({request["dataset"] for request in requests})
    cursor.execute("SELECT dataset, total FROM sums WHERE dataset = ANY(%s) FOR UPDATE", [touched])
    sums = dict(cursor.fetchall())
    rows = []
    for message, request in zip(messages, requests, strict=True):
        dataset = request["dataset"]
        total = sums.get(dataset, 0)
        cost = int(Decimal(request["claim"]["epsilon"]).scaleb(_DIGITS))
        outcome = "refused"
        if total + cost <= limit:
            outcome, total = "granted", total + cost
            sums[dataset] = total
        answer = {"outcome": outcome, "total": total, "request": request, "filler": filler}
        body = orjson.dumps(answer).decode()
        rows.append((message.partition(), message.offset(), dataset, body))
    cursor.execute(_SET_SUMS, [list(sums), list(sums.values())])
    return rows


def main() -> None:
    bootstrap, source, partitions, connection, limit, answer_bytes, batch = sys.argv[1:]
    filler = "." * (int(answer_bytes) - _REQUEST_BYTES)
    settings = {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False}
    consumer = Consumer(settings)
    done = 0
    with psycopg.connect(connection) as database, database.cursor() as cursor:
        cursor.execute(_TABLES)
        database.commit()
        consumer.assign([TopicPartition(source, i, 0) for i in range(int(partitions))])
        while True:
            messages = [each for each in consumer.consume(int(batch), _WAIT_S) if not each.error()]
            if not messages:
                continue
            rows = charge(cursor, messages, int(limit), filler)
            with cursor.copy("COPY answers FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
            ends = {partition: offset + 1 for partition, offset, _, _ in rows}
            cursor.execute(_SET_OFFSETS, [list(ends), list(ends.values())])
            database.commit()
            done += len(messages)
            print(done, flush=True)


if __name__ == "__main__":
    main()
