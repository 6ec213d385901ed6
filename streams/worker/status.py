"""The status of a worker's partitions, for `/readyz` and for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from accountant.errors import LogDamaged, MadeByOtherVersion
from accountant.partition import Partition
from accountant.replay.replay import GenesisDiffers
from streams.clock import steady
from streams.error_words import words_of
from streams.errors import Fenced
from streams.processing.observers import Committed
from streams.service.ledger_service import Readiness
from streams.telemetry.logs import get_logger

BROKER: Final = "broker"
"""The trouble that a broker does not answer."""
_MINUTE_S: Final = 60.0
_log = get_logger(__name__)
_AGAIN = "The worker tries again by itself; if this stays, restart it"


def broker_away(broker: str, why: object) -> str:
    """Return the reason for a broker that does not answer, with the next step."""
    return (
        f"{broker} does not answer: {why}. Check it and the network; the worker resumes by itself"
    )


class _Outage:
    """Logs that the broker is away: at once, then once a minute, and when it is back."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._since: float | None = None
        self._said = 0.0

    def report(self, why: str | None) -> None:
        """Take what a try has found, None where the broker has answered."""
        now = self._now()
        if why is None:
            if self._since is not None:
                _log.warning("broker_back", seconds=round(now - self._since))
            self._since = None
        elif self._since is None:
            self._since = self._said = now
            _log.warning("broker_away", why=why)
        elif now - self._said >= _MINUTE_S:
            self._said = now
            _log.warning("broker_away", why=why, seconds=round(now - self._since))


class Status:
    """An observer that remembers each partition's phase and why it is not serving.

    Args:
        now: seconds that never go back.

    Attributes:
        fencings: how often an owner was fenced, by partition.
    """

    def __init__(self, now: Callable[[], float] = steady) -> None:
        self._outage = _Outage(now)
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
        if what == BROKER:
            self._outage.report(why)
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
