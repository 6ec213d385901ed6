"""The states of a ledger's partitions in a process that follows its rows and its log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from accountant.errors import LedgerFault, MadeByOtherVersion
from accountant.partition import Partition
from accountant.records import DECODE_ERRORS, Decision, decode_decision
from accountant.records.header import DecisionHeader, decode_header
from accountant.records.parts import by_dataset
from accountant.replay.follow import FollowedPartition, OtherLog
from accountant.replay.replay import StateMismatch
from streams.errors import Unavailable
from streams.kafka.deployment import Deployment
from streams.kafka.service.follower.state_rows import StateRowsReader
from streams.service.live_views import CountedDecisions
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
_FROM_BEGINNING: Final = 0  # as a time of the log


class FollowedStates:
    """Gives the state of each partition, as of the last decision that was taken from its log.

    A state comes from the rows of `state`, or from decision 0 where there are none. It moves on
    with each decision after them. Another log in the place of the one that was read drops the
    state, and the rows are read again. A decision that cannot be applied stops its partition
    alone, until another version of this program starts.

    Args:
        on_state: called with each state that was made of rows, before it is shown.

    Attributes:
        rows: reader of the rows.
        counts: of the decisions that were applied.
    """

    def __init__(
        self,
        deployment: Deployment,
        on_state: Callable[[Partition], Awaitable[None]] | None = None,
    ) -> None:
        self._deployment = deployment
        self._on_state = on_state
        every = range(deployment.partitions)
        self._followed: dict[int, FollowedPartition] = {}
        self._accepted: dict[int, FollowedPartition] = {}  # until the tail reads from their rows on
        self._unknown = dict.fromkeys(every, "its rows are being read")
        self._replaying = set[int]()  # from decision 0, and not at the log's end yet
        self._stopped: dict[int, str] = {}
        self._settled = asyncio.Event()
        self.rows = StateRowsReader(deployment, self.take_rows)
        self.counts = CountedDecisions()

    def partition(self, number: int) -> Partition:
        """Return the current state of a partition.

        Raises: Unavailable: it is not known now.
        """
        state, why = self.last_known(number), self._unknown.get(number)
        if state is None or why is not None:
            raise Unavailable(f"partition {number} cannot be shown: {why}")
        return state

    def last_known(self, number: int) -> Partition | None:
        """Return the state of a partition as far as its log was read, which may be in the past."""
        followed = self._followed.get(number)
        return None if followed is None else followed.state

    def notes(self) -> list[str]:
        """Return for each partition that is not known what is wrong."""
        unknown = sorted(self._unknown.items())
        return [f"partition {number} cannot be shown: {why}" for number, why in unknown]

    def known(self) -> Mapping[int, bool]:
        """Return by partition whether its state is known."""
        every = range(self._deployment.partitions)
        return {number: number not in self._unknown for number in every}

    async def settled(self) -> None:
        """Return once the rows that were read are shown, and logs without rows read to the end."""
        await self._settled.wait()

    def _settle(self) -> None:
        if not self._accepted and not self._replaying:
            self._settled.set()

    async def take_rows(self, number: int, rows: Mapping[bytes, bytes]) -> bool:
        """Take the rows of a partition; return whether they are complete."""
        if number in self._stopped:
            return True
        if not rows:
            genesis = self._deployment.genesis(number)
            self._accepted[number] = FollowedPartition.from_beginning(genesis)
            return True
        try:
            # In a thread: a hundred thousand rows take some seconds.
            found = await asyncio.to_thread(FollowedPartition.from_rows, number, rows.items())
        except (StateMismatch, MadeByOtherVersion) as error:
            topic = self._deployment.topics.state
            self._unknown[number] = (
                f"rows of partition {number} in the topic {topic} are missing or cannot be read. "
                "The worker that owns the partition writes them again when it starts"
            )
            _log.warning("state_not_taken", partition=number, why=str(error), then="retry")
            return False
        if self._on_state is not None:
            await self._on_state(found.state)
        self._accepted[number] = found
        return True

    def read_on(self) -> dict[int, int]:
        """Show the states that were accepted last; return the times from which to read the logs."""
        accepted, self._accepted = self._accepted, {}
        since = dict[int, int]()
        for number, followed in accepted.items():
            self._followed[number] = followed
            since[number] = followed.state.decided_at
            if followed.state.sequence < 0:
                since[number] = _FROM_BEGINNING
                self._replaying.add(number)
                self._unknown[number] = "its log is being read from decision 0 on"
            else:
                self._unknown.pop(number, None)
        self._settle()
        return since

    def take(self, number: int, value: bytes) -> tuple[Decision | DecisionHeader, bool] | None:
        """Take the next decision of a partition's log.

        Returns: the decision, or its header where no more is needed or readable, and whether it
            was applied to the state; None for one that cannot be read.
        """
        followed = self._followed.get(number)
        try:
            line = decode_header(value) if followed is None else _whole_or_header(value)
        except (*DECODE_ERRORS, MadeByOtherVersion) as error:
            self._stop(number, f"a decision cannot be read: {error}")
            return None
        if followed is None:
            return line, False
        try:
            decision = followed.take(line, value)
        except OtherLog as error:
            self.lose(number, str(error))
            return line, False
        except LedgerFault as error:
            self._stop(number, str(error))
            return line, False
        if decision is None:
            return line, False
        self.counts.count(followed.state, by_dataset(decision))
        return line, True

    def reach_end(self, number: int) -> None:
        """Note that a log was read to the end that it had when the reading began or went on."""
        followed = self._followed.get(number)
        if followed is None:
            return
        if number in self._replaying:
            self._replaying.discard(number)
            self._unknown.pop(number, None)
        elif not followed.is_confirmed:
            self.lose(number, f"the log ends before decision {followed.state.sequence}")
        self._settle()

    def lose(self, number: int, why: str = "its place was removed") -> None:
        """Drop the state of a partition: its log is another one than was read before."""
        _log.warning("log_changed", partition=number, why=why, then="read its rows again")
        self._unknown[number] = f"its log is another one than before ({why}): reading it again"
        self._stopped.pop(number, None)
        self._drop(number)
        self.rows.want(number)

    def leave(self, number: int) -> None:
        """Drop the state of a partition that its owner in this process has from here on."""
        self._accepted.pop(number, None)
        self._followed.pop(number, None)

    def _stop(self, number: int, why: str) -> None:
        if number in self._stopped:
            return
        _log.error("partition_stopped", partition=number, why=why)
        self._stopped[number] = self._unknown[number] = (
            f"{why}. Run `accountant audit`, or the version of this program that wrote it"
        )
        self._drop(number)

    def _drop(self, number: int) -> None:
        self._replaying.discard(number)
        self._settle()
        followed = self._followed.pop(number, None)
        if followed is not None:
            self.counts.forget(followed.state.ledgers)


def _whole_or_header(value: bytes) -> Decision | DecisionHeader:
    """Return a decision, or its header where the whole cannot be read: its caller is answered."""
    try:
        return decode_decision(value)
    except (*DECODE_ERRORS, MadeByOtherVersion):
        return decode_header(value)
