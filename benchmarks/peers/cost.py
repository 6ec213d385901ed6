"""The processor time of a record, from samples taken while a program works."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

_POLL_S = 0.02
_QUIET_S = 4.0  # without a commit: then the program has answered everything
_PATIENCE_S = 120.0  # until the first commit, and between two
_MICROSECONDS = 1e6
_CPU_CLOCK = 2  # Linux: the kind of clock that counts the processor time of a process


class Unmeasured(RuntimeError):
    """A program cannot be measured; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What a program had done at one of its commits.

    Attributes:
        at: a steady time, in seconds.
        committed: visible records.
        program, broker: processor seconds of the program, with its servers, and of the broker.
    """

    at: float
    committed: int
    program: float
    broker: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a program takes for a record.

    Attributes:
        program, broker: microseconds of processor time.
        warm: `program` in the second half of the records.
        rate: records a second.
    """

    program: float
    warm: float
    broker: float
    rate: float


def process_seconds(process: int) -> float:
    """Return the processor time of all threads of a process, ended ones included (Linux)."""
    return time.clock_gettime((~process << 3) | _CPU_CLOCK)


def tree_seconds(process: int) -> float:
    """Return the processor time of a process, its children, and its ended children (Linux)."""
    ticks = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    ended = (int(ticks[13]) + int(ticks[14])) / os.sysconf("SC_CLK_TCK")
    children = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="utf-8")
    seconds = process_seconds(process) + ended
    for child in children.split():
        with contextlib.suppress(OSError):  # it has just ended
            seconds += process_seconds(int(child))
    return seconds


async def watch(
    committed: Callable[[], Awaitable[int]],
    spent: Callable[[], tuple[float, float]],
    count: int,
    check: Callable[[], None],
) -> list[Sample]:
    """Return a sample for each time that `committed` was seen to rise, until all is committed.

    Args:
        committed: returns the number of visible records.
        spent: returns the processor seconds of the program and of the broker.
        check: raises `Unmeasured` when the program has ended.

    Raises:
        Unmeasured: the program ended, or committed nothing for two minutes.
    """
    samples: list[Sample] = []
    changed = time.perf_counter()
    seen = 0
    while seen < count or time.perf_counter() - changed < _QUIET_S:
        await asyncio.sleep(_POLL_S)
        check()
        now = await committed()
        if now > seen:
            changed, seen = time.perf_counter(), now
            program, broker = spent()
            samples.append(Sample(at=changed, committed=now, program=program, broker=broker))
        elif time.perf_counter() - changed > _PATIENCE_S:
            raise Unmeasured(f"no commit for {_PATIENCE_S:.0f} s after {seen:,} of {count:,}")
    return samples


def cost(samples: Sequence[Sample], count: int) -> Cost:
    """Return what each of `count` records took, between the first and the last sample.

    A transaction's marker counts as one committed record in `Sample.committed`, so that the last
    sample has more than `count`: what lies between two samples is scaled to records.

    Raises:
        Unmeasured: fewer than three samples, so that there is no second half.
    """
    if len(samples) < 3:
        raise Unmeasured(f"only {len(samples)} commits were seen: ask for more requests")
    first, last = samples[0], samples[-1]
    half = next(each for each in samples if each.committed * 2 >= last.committed)
    if half is last:
        half = samples[-2]
    scale = count / last.committed
    records, later = ((last.committed - each.committed) * scale for each in (first, half))
    return Cost(
        program=(last.program - first.program) / records * _MICROSECONDS,
        warm=(last.program - half.program) / later * _MICROSECONDS,
        broker=(last.broker - first.broker) / records * _MICROSECONDS,
        rate=records / (last.at - first.at),
    )
