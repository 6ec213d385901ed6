"""Who used a dataset, wherever the ledger is; an index is read, and never written."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from streams.cli.printing.exits import Exit, fail

if TYPE_CHECKING:
    from accountant.views.usage import By
    from streams.index import UsageIndex
    from streams.kafka.deployment import Deployment

_HTTP_S: Final = 30.0


def usage_rows(
    url: str, dataset: str, by: By, token_file: Path | None = None
) -> list[dict[str, Any]]:
    """Return the rows of a dataset; its key is under the name of what it is.

    Raises: Unavailable, Refused, LogDamaged.
    """
    from streams.address import ledger_url

    if ledger_url(url).kind == "http":
        return _asked(url, dataset, by, token_file)
    index, partition = indexed(url, dataset)
    with contextlib.closing(index), index.at_last() as rows:
        if not rows.knows(dataset, partition):
            fail(Exit.FAILED, f"no dataset {dataset} was ever opened")
        return [row.named(by) for row in rows.usage(dataset, by)]


def indexed(url: str, dataset: str) -> tuple[UsageIndex, int | None]:
    """Return an index of this process alone that has taken in all decisions on a dataset.

    With the number of the only partition that it was compared with, if there are others.
    """
    from streams.cli.reading.log_reader import KafkaLog, SqliteLog, log_source
    from streams.embedded.decision_reader import LogSlices
    from streams.index import UsageIndex, index_path
    from streams.settings import load_command

    source = log_source(url)
    if isinstance(source, SqliteLog):
        index = UsageIndex.temporary(index_path(source.path, load_command()))
        with contextlib.closing(LogSlices(source.path)) as log:
            index.catch_up(log)
        return index, 0
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
    from streams.kafka.blocking_reader import LogsHere
    from streams.kafka.topics import check_whole
    from streams.settings import load_command

    # A missing topic would only ever time out, a partition too few would be another one.
    asyncio.run(check_whole(deployment))
    index = UsageIndex.temporary(load_command().index)
    partition = partition_of(dataset.encode(), deployment.partitions)
    with contextlib.closing(LogsHere(deployment).open(partition)) as log, progress() as bars:
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


def _asked(url: str, dataset: str, by: By, token_file: Path | None) -> list[dict[str, Any]]:
    import httpx

    from streams.cli.reading.connected import settings_for
    from streams.client.http.bearer import bearer_for, is_this_machine, verification
    from streams.client.http.problems import check_certificate, problem_of, raised
    from streams.client.http.question import check_place, is_not_found
    from streams.errors import Unavailable

    where = f"{url.rstrip('/')}/datasets/{quote(dataset, safe='')}/usage"
    bearer = bearer_for(url, settings_for(url, token_file))
    try:
        answer = httpx.get(
            where,
            params={"by": by},
            timeout=_HTTP_S,
            auth=bearer,
            verify=verification(url),
            trust_env=not is_this_machine(url),
        )
        body = answer.json()
    except (httpx.HTTPError, ValueError) as error:
        check_certificate(error, url)
        raise Unavailable(f"{url} does not answer: {error}") from error
    if answer.status_code == 200:
        check_place(url, answer, f"/datasets/{dataset}/usage?by={by}")
        return list(body)
    problem = problem_of(answer)
    if answer.status_code == 404:
        is_not_found(url, problem, dataset)
    if answer.status_code in {401, 403}:
        raise raised(answer.status_code, problem, url, has_token=bearer is not None)
    message = str(body.get("message", answer.status_code)) if isinstance(body, dict) else where
    if answer.status_code == 503:
        raise Unavailable(message)
    return fail(Exit.FAILED if answer.status_code == 404 else Exit.USAGE, message)
