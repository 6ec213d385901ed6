"""The status of a worker's partitions, for `/readyz` and for people."""

from __future__ import annotations

from collections.abc import Mapping

from accountant.errors import LogDamaged, MadeByOtherVersion
from accountant.partition import Partition
from accountant.replay.replay import GenesisDiffers
from streams.error_words import words_of
from streams.errors import Fenced
from streams.processing.observers import Committed
from streams.service.ledger_service import Readiness

_AGAIN = "The worker tries again by itself; if this stays, restart it"


def broker_away(broker: str, why: object) -> str:
    """Return the reason for a broker that does not answer, with the next step."""
    return (
        f"{broker} does not answer: {why}. Check it and the network; the worker resumes by itself"
    )


class Status:
    """An observer that remembers each partition's phase and why it is not serving.

    Attributes:
        fencings: how often an owner was fenced, by partition.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, str] = {}
        self._serving: set[int] = set()
        self._revoked: set[int] = set()
        self._trouble: dict[str, str] = {}
        self._unreached: Mapping[int, str] = {}
        self.fencings: dict[int, int] = {}

    def assigned(self, partition: int) -> None:
        """Record that this process serves a partition from now on."""
        self._revoked.discard(partition)
        self._waiting[partition] = (
            f"partition {partition} is being replayed. Wait: it is decided after that"
        )

    def revoked(self, partition: int) -> None:
        """Record that this process no longer serves a partition."""
        self._revoked.add(partition)
        self._waiting.pop(partition, None)
        self._serving.discard(partition)

    def trouble(self, what: str, why: str | None) -> None:
        """Record a trouble of the whole process; None ends it."""
        if why is None:
            self._trouble.pop(what, None)
        else:
            self._trouble[what] = why

    def unreached(self, reasons: Mapping[int, str]) -> None:
        """Record the partitions that need a broker that does not answer, with the reason."""
        self._unreached = reasons

    @property
    def serving(self) -> frozenset[int]:
        """The partitions that are being decided."""
        return frozenset(self._serving)

    def is_sound(self, partition: int) -> bool:
        """Return whether the process and the brokers of a partition have no trouble."""
        return not self._trouble and partition not in self._unreached

    def readiness(self) -> Readiness:
        """Return whether this process decides every partition assigned to it, and if not, why."""
        unreached = [
            f"partition {partition}: {why}"
            for partition, why in self._unreached.items()
            if partition in self._serving  # the others have a reason in `_waiting`
        ]
        reasons = [*self._trouble.values(), *unreached, *self._waiting.values()]
        return Readiness(ready=not reasons, reasons=reasons)

    def replayed(self, partition: Partition, seconds: float) -> None:
        self._serving.add(partition.genesis.partition)
        self._waiting.pop(partition.genesis.partition, None)

    def committed(self, committed: Committed) -> None:
        pass

    def dropped(self, partition: int, error: BaseException | None) -> None:
        self._serving.discard(partition)
        if isinstance(error, Fenced):
            self.fencings[partition] = self.fencings.get(partition, 0) + 1
        # A task may end with an error after its partition was revoked.
        if error is not None and partition not in self._revoked:
            self._waiting[partition] = f"partition {partition}: {words_of(error)}. {_AGAIN}"

    def halted(self, partition: int, error: BaseException) -> None:
        self._serving.discard(partition)
        hint = ""
        if isinstance(error, LogDamaged) and not isinstance(
            error, GenesisDiffers | MadeByOtherVersion
        ):
            hint = ". Run `accountant audit`: it names the first record that disagrees"
        self._waiting[partition] = f"partition {partition} halted: {error}{hint}"
