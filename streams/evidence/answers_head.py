"""Signed heads of answers, beside the checkpoints of the log whose questions they answer.

    accountant/5d0c...4f/0/answers                  origin: ledger, partition, and what is signed
    42                                              entries in the chain of answers
    lPyOBqgwLgBLXcCPyh4rTLFM7evAwsG3oBYkhIAEqB0=    hash of the last one, as 32 bytes
    branch 0                                        of the log: how many rollbacks it has accepted
    begun 0                                         how often the answers began again since
    time 2026-11-23T15:20:00.000Z

    — census 5kQ...                                 name of the key; its id, and the signature

The text differs from a checkpoint's in its origin and in a line more, so neither can be taken for
the other.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from accountant.times import from_iso, iso
from streams.answers.heads import ChainHead, StoredHead
from streams.evidence.keys import SigningKey, Verifier
from streams.evidence.signed_checkpoint import (
    ANSWERS_SUFFIX,
    CheckpointInvalid,
    base64_of,
    origin_of,
    sign_text,
    verified_text,
)

_END: Final = "/answers"
_ORIGIN: Final = re.compile(
    r"accountant/([0-9a-f]{32}|sha256:[0-9a-f]{64})/(0|[1-9][0-9]{0,8})/answers"
)
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,18}")
_LINES: Final = 7


class AnswersHead(NamedTuple):
    """The head of one partition's answers at one moment.

    Attributes:
        ledger, partition: of the log whose questions were answered.
        branch, begun: as of `StoredHead`.
        number, hash: of the last entry, as of `ChainHead`.
        at: the time of signing, milliseconds since 1970. For people; nothing is ordered by it.
    """

    ledger: str
    partition: int
    branch: int
    begun: int
    number: int
    hash: str
    at: int

    @property
    def origin(self) -> str:
        """The first line of the signed text."""
        return origin_of(self.ledger, self.partition) + _END

    @property
    def order(self) -> tuple[int, ...]:
        """By which heads of one origin follow one another."""
        return self.branch, self.begun, self.number

    @property
    def file_name(self) -> str:
        """The name of its file in a directory."""
        digest = self.hash.removeprefix("sha256:")[:16]
        return f"{self.branch}-{self.begun}-{self.number:019d}-{digest}{ANSWERS_SUFFIX}"

    @property
    def stored(self) -> StoredHead:
        """The head itself."""
        return StoredHead(ChainHead(self.number, self.hash), self.branch, self.begun, 0)


def is_answers_head(signed_text: bytes) -> bool:
    """Tell by its first line whether a text is about answers."""
    return signed_text.partition(b"\n")[0].endswith(_END.encode())


def sign_head(head: AnswersHead, key: SigningKey) -> bytes:
    """Return a head with its signature, as text."""
    return sign_text(_text_of(head), key)


def open_head(signed_text: bytes, verifiers: Iterable[Verifier]) -> AnswersHead:
    """Return the head in a text that one of these keys has signed.

    Raises: CheckpointInvalid.
    """
    return _parse(verified_text(signed_text, verifiers)[0])


def _text_of(head: AnswersHead) -> bytes:
    digest = base64_of(head.hash)
    return (
        f"{head.origin}\n"
        f"{head.number}\n"
        f"{digest}\n"
        f"branch {head.branch}\n"
        f"begun {head.begun}\n"
        f"time {iso(head.at)}\n"
    ).encode()


def _parse(text: str) -> AnswersHead:
    """Return the head of a signed text; each has exactly one text.

    Raises: CheckpointInvalid.
    """
    lines = text.split("\n")
    if len(lines) != _LINES:
        raise CheckpointInvalid("it is no head of answers of this program")
    origin = _ORIGIN.fullmatch(lines[0])
    branch, begun = lines[3].removeprefix("branch "), lines[4].removeprefix("begun ")
    numbers = lines[1], branch, begun
    try:
        if origin is None or not all(map(_NUMBER.fullmatch, numbers)):
            raise ValueError("origin, number, branch and begun")
        head = AnswersHead(
            ledger=origin[1],
            partition=int(origin[2]),
            branch=int(branch),
            begun=int(begun),
            number=int(lines[1]),
            hash=f"sha256:{base64.b64decode(lines[2], validate=True).hex()}",
            at=from_iso(lines[5].removeprefix("time ")),
        )
    except (ValueError, binascii.Error) as error:
        raise CheckpointInvalid(f"it is no head of answers of this program: {error}") from error
    if len(head.hash) != len("sha256:") + 64 or _text_of(head) != text.encode():
        raise CheckpointInvalid("it is no head of answers as this program writes it")
    return head
