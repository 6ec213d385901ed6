"""The last requests on a dataset that somebody sees, read from its end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from accountant.records import Decision, decode_decision
from accountant.records.outcomes import Outcome
from streams.auth.decision_pages import MOST_LOOKED_AT
from streams.auth.visibility import Standing, decode_decision_line, sees_decision
from streams.errors import Gone
from streams.service import Service

MOST: Final = 20
_FIRST, _AT_A_TIME = 60, 1_000
_REQUESTS: Final = frozenset({Outcome.GRANTED, Outcome.REFUSED})


class Latest(NamedTuple):
    """The last requests, the newest first.

    Attributes:
        looked_at: how many decisions were looked at for them.
        is_whole: there are no older ones.
        archived: older ones are in an archive of the log.
        trouble: why they cannot be read now, in words; "" where nothing is wrong.
    """

    decisions: list[Decision]
    looked_at: int
    is_whole: bool
    archived: bool
    trouble: str = ""


class _Asked(msgspec.Struct):
    analyst: str | None = None
    via: str | None = None


_decode_asked: Final = msgspec.json.Decoder(_Asked).decode


async def latest(
    service: Service,
    dataset: str,
    standing: Standing,
    sequence: int,
    *,
    own: str | None,
    most: int = MOST,
) -> Latest:
    """Return the last requests that somebody sees of a dataset, from its decision `sequence` on.

    At most `MOST_LOOKED_AT` decisions are looked at: others' may be all of them.

    Args:
        own: whose requests alone, made for them or by them for others; None for everybody's.
    Raises: Unavailable.
    """
    found, looked_at, upto, size = list[Decision](), 0, sequence, _FIRST
    while upto > 0 and len(found) < most and looked_at < MOST_LOOKED_AT:
        after = max(0, upto - size)
        try:
            values = await _between(service, dataset, after, upto)
        except Gone:
            return Latest(found, looked_at, is_whole=False, archived=True)
        # In a thread: to read a thousand decisions takes some milliseconds.
        found += await asyncio.to_thread(_seen, values, standing, own, most - len(found))
        looked_at += upto - after
        upto, size = after, _AT_A_TIME
    return Latest(found, looked_at, is_whole=upto <= 0, archived=False)


async def _between(service: Service, dataset: str, after: int, upto: int) -> list[bytes]:
    """Return the decisions of a dataset from number `after` + 1 to `upto`, in their order."""
    found, most = list[bytes](), upto - after
    while len(found) < most:
        # A page is shorter than asked for where decisions are long.
        page = await service.decisions(dataset, after=after + len(found), most=most - len(found))
        if not page:
            break
        found += page
    return found


def _seen(
    values: Sequence[bytes], standing: Standing, own: str | None, most: int
) -> list[Decision]:
    found = list[Decision]()
    for value in reversed(values):
        line = decode_decision_line(value)
        if line.outcome not in _REQUESTS or not sees_decision(standing, line):
            continue
        asked = _decode_asked(line.request)
        if asked.analyst is not None and (own is None or own in {asked.analyst, asked.via}):
            found.append(decode_decision(value))
            if len(found) == most:
                break
    return found
