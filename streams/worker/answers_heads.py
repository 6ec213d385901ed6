"""Signs the heads of the answers on Kafka: by a worker, of what it reads itself.

The curator does not sign: an auditor wants to know what others saw in its topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from accountant.errors import LedgerFault
from accountant.partition import Partition
from accountant.views.heads import Head
from streams.answers.chain import ChainEnd, difference_from_heads
from streams.answers.heads import StoredHead
from streams.clock import Clock, SystemClock
from streams.errors import Refused, Unavailable
from streams.evidence.answers_head_folder import AnswersHeadFolder, signed_heads
from streams.evidence.sink_sender import Senders
from streams.evidence.store import folder_of
from streams.kafka.deployment import Deployment, deployment_of
from streams.kafka.service.answers import BEGIN_AGAIN, AnswerChain, KafkaAnswers, open_answer_chain
from streams.processing.observers import Committed
from streams.service.ledger_service import LedgerService
from streams.settings import Settings
from streams.telemetry.logs import get_logger
from streams.worker.partition_checkpoints import checkpoint_directory, partition_store

_log = get_logger(__name__)
_AGAIN_S: Final = 60.0


class PartitionAnswersHeads:
    """An observer that knows the worker's partitions; `run` signs the heads of their answers.

    Args:
        directory: of the checkpoints.
        senders: are given what is signed.
    """

    def __init__(
        self,
        deployment: Deployment,
        settings: Settings,
        directory: Path,
        senders: Senders | None,
        *,
        clock: Clock | None = None,
    ) -> None:
        self._deployment = deployment
        self._settings = settings
        self._directory = directory
        self._senders = senders
        self._clock = clock or SystemClock()
        self._served: dict[int, Partition] = {}
        self._chain: AnswerChain | None = None
        self._compared = set[int]()  # partitions of this chain
        self._signed: dict[int, StoredHead] = {}
        self._troubles: dict[int, str] = {}
        self._unread: str | None = None

    @property
    def notes(self) -> list[str]:
        """Notes for operators, for `/readyz`."""
        unread = (
            [] if self._unread is None else [f"no head of the answers is signed: {self._unread}"]
        )
        troubles = sorted(self._troubles.items())
        return [*unread, *(f"answers of partition {n}: {why}" for n, why in troubles)]

    def replayed(self, partition: Partition, seconds: float) -> None:
        """Take a partition: its answers are compared with their signed heads."""
        number = partition.genesis.partition
        self._compared.discard(number)
        self._served[number] = partition

    def committed(self, committed: Committed) -> None:
        """Take the partition as it is now: it may have accepted a rollback."""
        self._served[committed.partition.genesis.partition] = committed.partition

    def dropped(self, partition: int, error: BaseException | None) -> None:
        """Leave a partition to another worker."""
        if error is None:
            self._leave(partition)

    def halted(self, partition: int, error: BaseException) -> None:
        """Leave a partition that decides nothing more."""
        self._leave(partition)

    def _leave(self, partition: int) -> None:
        for each in (self._served, self._signed, self._troubles):
            each.pop(partition, None)

    async def run(self) -> None:
        """Read the answers and sign their heads, for ever."""
        reported = ""
        while True:
            try:
                await self._read_on()
            except LedgerFault as error:
                self._unread = str(error)
                if reported != self._unread:
                    reported = self._unread
                    _log.error("answers_heads_not_signed", why=reported)
            await asyncio.sleep(_AGAIN_S)

    async def _read_on(self) -> None:
        """Read and sign until the answers cannot be read.

        Returns at once where the ledger has no answers, or this principal may not read them.
        """
        chain = await open_answer_chain(self._deployment)
        self._unread = None
        if chain is None:
            return
        try:
            while True:
                await self.sign(chain)
                await asyncio.sleep(self._settings.checkpoint_seconds)
        finally:
            await chain.close()

    async def sign(self, chain: AnswerChain) -> None:
        """Sign the head of each served partition that has grown.

        A topic that is read again may be another one, so it is compared again.

        Raises: Unavailable: the answers cannot be read any more.
        """
        if chain.trouble is not None:
            raise Unavailable(chain.trouble)
        if chain is not self._chain:
            self._chain = chain
            self._compared.clear()
            self._signed.clear()
        for number, partition in list(self._served.items()):
            head = chain.head(number)._replace(branch=partition.branch)
            is_compared = number in self._compared
            if is_compared and (head == self._signed.get(number) or not head.head.number):
                continue
            try:
                await asyncio.to_thread(self._sign_one, chain, partition, head)
            except (Refused, Unavailable) as error:
                if self._troubles.get(number) != str(error):
                    _log.error("answers_head_not_signed", partition=number, why=str(error))
                self._troubles[number] = str(error)
            else:
                self._troubles.pop(number, None)
                self._signed[number] = head

    def _sign_one(self, chain: AnswerChain, partition: Partition, head: StoredHead) -> None:
        """Compare once, then sign; nothing to sign is compared, too.

        Raises: Refused: it is an older or another chain. Unavailable.
        """
        genesis = partition.genesis
        if genesis.ledger is msgspec.UNSET:
            raise Unavailable("a ledger of 0.1.0 has no id: its answers have no signed heads")
        number, ledger = genesis.partition, genesis.ledger
        store = partition_store(self._directory, self._settings, ledger, number)
        folder = AnswersHeadFolder(store.folder, (), number, ledger, store.key)
        if number not in self._compared:
            why = _difference(chain.chain(number), head, folder.load())
            if why is not None:
                raise Refused(
                    f"the topic is {why}. No head is signed until it has the newest records again, "
                    "or begins again (docs/how-to/backup-and-restore.md)"
                )
            self._compared.add(number)
        if not head.head.number:
            return
        done = folder.put(head, self._clock.now())
        if self._senders is not None:
            self._senders.take(*done)


async def check_answers(store: KafkaAnswers, service: LedgerService, settings: Settings) -> None:
    """Compare a curator's store with the signed heads that this process can read.

    Its mark, which fits the topic, may have been put back together with an older copy. Where there
    is no mark the answers begin again, and nothing that was granted before is run.

    Raises: as `check_shown_answers`.
    """
    directory = checkpoint_directory(settings)
    if directory is not None:
        await _compare(service, deployment_of(settings), directory, await store.marked())


async def check_shown_answers(service: LedgerService, settings: Settings) -> None:
    """Compare the answers that a gateway shows with the signed heads that it can read.

    Args:
        settings: whose directory of checkpoints is read, if they name one.
    Raises: Refused: the topic is an older copy, or another one. Unavailable.
    """
    directory = checkpoint_directory(settings)
    if directory is not None:
        await _compare(service, deployment_of(settings), directory, None)


async def _compare(
    service: LedgerService,
    deployment: Deployment,
    directory: Path,
    partitions: Collection[int] | None,
) -> None:
    """Compare the topic with its signed heads.

    Args:
        directory: of the checkpoints.
        partitions: to compare; None for those that have records.
    """
    chain = await AnswerChain.start(deployment)
    try:
        heads = [
            each
            for each in await service.heads()
            if (
                each.partition in partitions
                if partitions is not None
                else chain.head(each.partition).head.number
            )
        ]
        signed = await asyncio.to_thread(_signed, directory, heads)
        for number, found in signed.items():
            head = chain.head(number)._replace(branch=service.branch(number) or 0)
            why = _difference(chain.chain(number), head, found)
            if why is not None:
                raise Refused(
                    f"{deployment.topics.answers}, partition {number}, is {why}. Put the newest "
                    f"back. {BEGIN_AGAIN.format(group=chain.group)}"
                )
    finally:
        await chain.close()


def _signed(directory: Path, heads: Sequence[Head]) -> dict[int, list[StoredHead]]:
    """Return the signed heads of each partition. Raises: Unavailable."""
    found = {
        each.partition: signed_heads(
            [folder_of(directory, each.ledger)], each.partition, each.ledger
        )
        for each in heads
    }
    if not any(found.values()):
        _log.warning("answers_heads_not_compared", why=f"{directory} has none of this ledger")
    return found


def _difference(chain: ChainEnd, head: StoredHead, signed: Iterable[StoredHead]) -> str | None:
    """Return how a topic does not continue its signed heads, None if it does.

    Args:
        head: of the topic. What was signed before its beginning is given up.
    """
    found = [each for each in signed if each.order[:2] >= head.order[:2]]
    return difference_from_heads(chain, None, found)


def partition_answers_heads(
    deployment: Deployment, settings: Settings, senders: Senders | None
) -> PartitionAnswersHeads | None:
    """Return the observer of a worker's answers; None if no setting names a directory."""
    directory = checkpoint_directory(settings)
    if directory is None:
        return None
    return PartitionAnswersHeads(deployment, settings, directory, senders)
