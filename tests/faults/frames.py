"""Frames of the Kafka protocol, and the faults of one of them."""

from __future__ import annotations

import asyncio
import enum
import struct
import threading
from dataclasses import dataclass, field
from typing import Final

_FRAME_MAX = 64 * 1024 * 1024  # bytes; above it the peer does not speak Kafka


class Api(enum.IntEnum):
    """The request kinds that tests name; others pass through under their number."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    API_VERSIONS = 18
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    TXN_OFFSET_COMMIT = 28


class Action(enum.Enum):
    """What happens to the chosen request."""

    LOSE_RESPONSE = "done by the broker; this and later responses of the connection vanish"
    DELAY_RESPONSE = "done by the broker; this and later responses are late by `seconds`"
    RESET_AFTER = "done by the broker; the client sees its connection reset instead"
    RESET_BEFORE = "never reaches the broker; the client sees its connection reset"
    ANSWER_ERROR = "done by the broker; the client gets an error `code`"
    STRANGE_VERSIONS = "the client gets API_VERSIONS far above those that it knows"
    FORWARD_LATE = "the client sees a reset at once; the broker gets it `seconds` later"


@dataclass(eq=False)
class Fault:
    """One fault, struck once. `wait` blocks: in a coroutine use `asyncio.to_thread(fault.wait)`."""

    api: int
    action: Action
    nth: int
    seconds: float
    client_id: str | None
    code: int
    struck: threading.Event = field(default_factory=threading.Event)

    def wait(self, timeout: float = 30.0) -> None:
        """Return once it struck (FORWARD_LATE: once the broker answered the late request)."""
        if not self.struck.wait(timeout):
            raise TimeoutError(f"{self.action.name} of api {self.api} did not strike")


@dataclass(frozen=True)
class Request:
    """One request frame as the client sent it, without its length."""

    frame: bytes
    api: int
    correlation: int
    client_id: str | None

    @property
    def content(self) -> bytes:
        """What is asked, whenever it is asked."""
        return self.frame[:4] + self.frame[8:]

    @property
    def required_acks(self) -> int:
        """How many replicas a PRODUCE waits for, -1 for all in sync."""
        api, version, _, length = struct.unpack_from(">hhih", self.frame)
        if api != Api.PRODUCE or not 3 <= version < 9:
            raise ValueError(f"not a PRODUCE of a form that is known: api {api}, version {version}")
        at = 10 + max(0, length)
        (name,) = struct.unpack_from(">h", self.frame, at)  # transactional id, -1 for none
        (acks,) = struct.unpack_from(">h", self.frame, at + 2 + max(0, name))
        return int(acks)

    @classmethod
    def parse(cls, frame: bytes) -> Request:
        """Read the first fields of the request header, which every version has."""
        api, _, correlation, length = struct.unpack_from(">hhih", frame)
        client_id = frame[10 : 10 + length].decode() if length >= 0 else None
        return cls(frame, api, correlation, client_id)


UNKNOWN_SERVER_ERROR: Final = -1


def with_error(response: bytes, api: int, code: int) -> bytes:
    """Return a response with another error code: of PRODUCE, that of its first partition.

    A response of a kind that is not named here must end with the code that is meant.
    """
    at = len(response) - 2
    if api in (Api.INIT_PRODUCER_ID, Api.FIND_COORDINATOR):
        at = 8  # after correlation id and throttle time
    elif api == Api.PRODUCE:
        # correlation id, number of topics; the first one's name, number of partitions, number
        (name,) = struct.unpack_from(">h", response, 8)
        at = 10 + name + 8
    return response[:at] + struct.pack(">h", code) + response[at + 2 :]


def with_strange_versions(response: bytes) -> bytes:
    """Return the first form of a response to API_VERSIONS with no version that a client has."""
    # correlation id, error code, number of kinds; of each its number, lowest and highest version
    head, kinds = response[:10], struct.iter_unpack(">hhh", response[10:])
    return head + b"".join(struct.pack(">hhh", kind, 32_000, 32_000) for kind, _, _ in kinds)


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """Read one length-prefixed frame."""
    (length,) = struct.unpack(">i", await reader.readexactly(4))
    if not 0 <= length <= _FRAME_MAX:
        raise OSError(f"not a Kafka frame: length {length}")
    return await reader.readexactly(length)


async def write_frame(writer: asyncio.StreamWriter, frame: bytes) -> None:
    """Write one length-prefixed frame."""
    writer.write(struct.pack(">i", len(frame)) + frame)
    await writer.drain()
