"""Signed checkpoints, in the format of transparency logs (c2sp.org/tlog-checkpoint).

    accountant/5d0c...4f/0                          origin: ledger and partition
    42                                              decisions in the log
    lPyOBqgwLgBLXcCPyh4rTLFM7evAwsG3oBYkhIAEqB0=    hash of the last one, as 32 bytes
    branch 0
    time 2026-11-23T15:20:00.000Z

    — census 5kQ...                                 name of the key; its id, and the signature

The log is a hash chain, not a Merkle tree. A witness can countersign a head, but cannot check from
two checkpoints alone that one continues the other; `audit` can, with the log.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

from accountant.times import from_iso, iso
from streams.evidence.keys import SigningKey, Verifier

SUFFIX: Final = ".note"
ANSWERS_SUFFIX: Final = ".head"
"""Of the files of signed heads of answers."""
_ORIGIN: Final = re.compile(r"accountant/([0-9a-f]{32}|sha256:[0-9a-f]{64})/(0|[1-9][0-9]{0,8})")
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,18}")
_HEAD: Final = re.compile(r"sha256:[0-9a-f]{64}")
_SIGNATURE: Final = re.compile(r"— (\S{1,100}) ([A-Za-z0-9+/]{88,100}={0,2})")
_MOST: Final = 4_096
_MOST_SIGNATURES: Final = 16


class CheckpointInvalid(ValueError):
    """Not a checkpoint, or not signed by a known key."""


class Checkpoint(NamedTuple):
    """The head of one partition's log at one moment.

    Attributes:
        ledger: its id; for a log without one, the hash of partition 0's decision 0.
        branch: the number of rollbacks that the log has accepted.
        sequence, head: number and hash of the last decision.
        at: the time of signing, milliseconds since 1970. For people; nothing is ordered by it.
    """

    ledger: str
    partition: int
    branch: int
    sequence: int
    head: str
    at: int

    @property
    def origin(self) -> str:
        """The first line of the signed text."""
        return origin_of(self.ledger, self.partition)

    @property
    def order(self) -> tuple[int, ...]:
        """By which checkpoints of one origin follow one another."""
        return self.branch, self.sequence

    @property
    def file_name(self) -> str:
        """The name of its file in a directory."""
        digest = self.head.removeprefix("sha256:")[:16]
        return f"{self.branch}-{self.sequence:019d}-{digest}{SUFFIX}"


class SignedHead(Protocol):
    """What sinks store: a `Checkpoint`, or a head of answers."""

    @property
    def ledger(self) -> str:
        """The ledger's id."""
        ...

    @property
    def partition(self) -> int:
        """The partition's number."""
        ...

    @property
    def origin(self) -> str:
        """The first line of the signed text."""
        ...

    @property
    def order(self) -> tuple[int, ...]:
        """By which heads of one origin follow one another."""
        ...

    @property
    def file_name(self) -> str:
        """The name of its file in a directory."""
        ...


def origin_of(ledger: str, partition: int) -> str:
    """Return the first line of a signed text about a partition's log."""
    return f"accountant/{ledger}/{partition}"


def base64_of(digest: str) -> str:
    """Return a hash, written as `sha256:` and hexadecimal digits, in the form of signed texts."""
    return base64.b64encode(bytes.fromhex(digest.removeprefix("sha256:"))).decode()


def text_of(checkpoint: Checkpoint) -> bytes:
    """Return the text to sign."""
    root = base64_of(checkpoint.head)
    return (
        f"{checkpoint.origin}\n"
        f"{checkpoint.sequence + 1}\n"
        f"{root}\n"
        f"branch {checkpoint.branch}\n"
        f"time {iso(checkpoint.at)}\n"
    ).encode()


def sign_checkpoint(checkpoint: Checkpoint, key: SigningKey) -> bytes:
    """Return a checkpoint with its signature, as text."""
    return sign_text(text_of(checkpoint), key)


def sign_text(text: bytes, key: SigningKey) -> bytes:
    """Return a text with its signature."""
    signature = base64.b64encode(key.verifier.id + key.sign(text)).decode()
    return text + f"\n— {key.verifier.name} {signature}\n".encode()


def open_signed(signed_text: bytes, verifiers: Iterable[Verifier]) -> Checkpoint:
    """Return the checkpoint in a text that one of these keys has signed.

    Signatures by other keys, such as witnesses', are ignored.

    Raises: CheckpointInvalid.
    """
    return verify(signed_text, verifiers)[0]


def verify(signed_text: bytes, verifiers: Iterable[Verifier]) -> tuple[Checkpoint, Verifier]:
    """Return the checkpoint in a text, and the first of these keys that has signed it.

    Raises: CheckpointInvalid.
    """
    _parse(_split(signed_text)[0])  # of another kind of text, signatures say nothing
    text, verifier = verified_text(signed_text, verifiers)
    return _parse(text), verifier


def verified_text(signed_text: bytes, verifiers: Iterable[Verifier]) -> tuple[str, Verifier]:
    """Return the text that one of these keys has signed, and the first such key.

    Raises: CheckpointInvalid.
    """
    text, signatures = _split(signed_text)
    known = {(verifier.name, verifier.id): verifier for verifier in verifiers}
    for line in signatures:
        found = _SIGNATURE.fullmatch(line)
        if found is None:
            raise CheckpointInvalid("one of its signature lines is malformed")
        try:
            value = base64.b64decode(found[2], validate=True)
        except binascii.Error as error:
            raise CheckpointInvalid("a signature is malformed") from error
        verifier = known.get((found[1], value[:4]))
        if verifier is not None and verifier.verifies(value[4:], text.encode()):
            return text, verifier
    raise CheckpointInvalid("no known key has signed it")


def parse_unverified(signed_text: bytes) -> Checkpoint:
    """Return the checkpoint in a text without checking signatures.

    Raises: CheckpointInvalid.
    """
    return _parse(_split(signed_text)[0])


def _split(signed_text: bytes) -> tuple[str, list[str]]:
    """Return the signed text, and the signature lines.

    Raises: CheckpointInvalid.
    """
    if len(signed_text) > _MOST:
        raise CheckpointInvalid(f"a checkpoint has at most {_MOST} bytes")
    try:
        text, gap, lines = signed_text.decode().partition("\n\n")
    except UnicodeDecodeError as error:
        raise CheckpointInvalid("it is not UTF-8 text") from error
    signatures = lines.split("\n")[:-1]
    if not gap or not lines.endswith("\n") or len(signatures) > _MOST_SIGNATURES:
        raise CheckpointInvalid("it is not a signed checkpoint")
    return text + "\n", signatures


def _parse(text: str) -> Checkpoint:
    """Return the checkpoint of a signed text; each has exactly one text.

    Raises: CheckpointInvalid.
    """
    lines = text.split("\n")
    if len(lines) != 6:
        raise CheckpointInvalid("it is not a checkpoint of this program")
    origin = _ORIGIN.fullmatch(lines[0])
    branch, at = lines[3].removeprefix("branch "), lines[4].removeprefix("time ")
    try:
        if origin is None or not _NUMBER.fullmatch(lines[1]) or not _NUMBER.fullmatch(branch):
            raise ValueError("origin, size and branch")
        root = base64.b64decode(lines[2], validate=True)
        checkpoint = Checkpoint(
            ledger=origin[1],
            partition=int(origin[2]),
            branch=int(branch),
            sequence=int(lines[1]) - 1,
            head=f"sha256:{root.hex()}",
            at=from_iso(at),
        )
    except (ValueError, binascii.Error) as error:
        raise CheckpointInvalid(f"it is not a checkpoint of this program: {error}") from error
    if (
        checkpoint.sequence < 0
        or not _HEAD.fullmatch(checkpoint.head)
        or text_of(checkpoint) != text.encode()
    ):
        raise CheckpointInvalid("it is not a checkpoint as this program writes it")
    return checkpoint
