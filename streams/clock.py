"""Clocks, passed as an argument: the machine's clock, or a test's."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from accountant.times import iso
from streams.errors import ClockOutOfRange

CLOCK_OUT_OF_RANGE: Final = "clock_out_of_range"
"""Prefix of errors where nothing is decided because the clock is wrong."""
JUMP_MS: Final = 300_000
"""How far the wall clock may drift from the monotonic clock, or be behind the log."""
DAY_MS: Final = 86_400_000
MAX_AHEAD_MS: Final = 400 * DAY_MS
"""Default limit for how far the wall clock may be ahead of the log."""
MAX_AHEAD_OF_BROKER_MS: Final = 2 * DAY_MS
"""How far the wall clock may be ahead of a broker's."""
WARN_AHEAD_MS: Final = 7 * DAY_MS
"""How far it may be ahead of the newest checkpoint of a file without a warning: most ledgers rest
for a weekend, and then a warning at each start would teach people to ignore it."""


# Linux counts the time asleep in CLOCK_BOOTTIME only, macOS in CLOCK_MONOTONIC, which is not what
# `time.monotonic` reads there.
_BOOT_CLOCK: Final[int | None] = getattr(
    time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None)
)


steady: Final[Callable[[], float]] = time.monotonic
"""Returns seconds that pass like a thread's waits: not while the machine sleeps."""


class Clock(Protocol):
    """A source of time."""

    def now(self) -> int:
        """Return the wall clock, milliseconds since 1970."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never jump."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    # Prefer a clock that runs while the machine sleeps: the wall clock then does not jump when the
    # machine wakes up. A processor reads it for each decision, so it is no function of Python.
    monotonic = staticmethod(
        time.monotonic if _BOOT_CLOCK is None else partial(time.clock_gettime, _BOOT_CLOCK)
    )


class CheckedClock:
    """A clock that refuses to give the time after a jump, until it is right again.

    Args:
        max_ahead_ms: how far it may be ahead of the last decision.
    Raises: ClockOutOfRange: the wall clock moved more than 5 minutes against the monotonic
        clock since the start, lies more than 5 minutes behind the last decision, or too far
        ahead of it: one decision by such a clock would expire every request until then.
    """

    def __init__(self, clock: Clock, max_ahead_ms: int = MAX_AHEAD_MS) -> None:
        self._clock = clock
        self._most_ahead = max_ahead_ms
        self._offset = clock.now() - clock.monotonic() * 1000

    def now(self, last_decided_at: int) -> int:
        """Return the wall clock if it agrees with the monotonic clock and the log."""
        now = self._clock.now()
        jump = now - self._clock.monotonic() * 1000 - self._offset
        if abs(jump) > JUMP_MS:
            raise ClockOutOfRange(
                f"the clock jumped by {jump / 1000:.0f} s. Set it back; or, if it is right now, "
                "restart"
            )
        if now < last_decided_at - JUMP_MS:
            behind = (last_decided_at - now) / 1000
            raise ClockOutOfRange(
                f"the clock is {behind:.0f} s behind the last decision. Set it. If it is right, an "
                f"earlier clock was ahead: wait until it is {JUMP_MS // 1000} s behind, or run "
                "`accountant clock reset`"
            )
        if now > last_decided_at + self._most_ahead:
            ahead = (now - last_decided_at) // DAY_MS
            raise ClockOutOfRange(
                f"the clock is {ahead} days ahead of the last decision. Set it. If it is right and "
                f"nothing was decided for so long, set ACCOUNTANT_CLOCK_AHEAD_DAYS={ahead + 1}"
            )
        return now


def check_broker_clock(now: int, broker: int) -> None:
    """Compare this machine's clock with a broker's, which no pause of the ledger can make older.

    Only a clock that is ahead is refused. One that is behind lags behind the log, or dates
    decisions at most 5 minutes ahead of itself: the limits of `CheckedClock` suffice.

    Args:
        now: the wall clock, read before the broker's was.
        broker: the broker's time; both in milliseconds since 1970.
    Raises: ClockOutOfRange: `now` is more than 2 days ahead.
    """
    if now - broker > MAX_AHEAD_OF_BROKER_MS:
        raise ClockOutOfRange(
            f"this machine's clock is {(now - broker) / DAY_MS:.1f} days ahead of the broker's: "
            f"{iso(now)} here, {iso(broker)} there. Set the one that is wrong, for example with "
            "NTP: deciding then starts by itself"
        )
