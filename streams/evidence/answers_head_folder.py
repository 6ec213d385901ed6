"""Signed heads of answers in the folder of a ledger's checkpoints, and the task that signs them.

the store's thread              the task's thread
------------------              -----------------
head written, then wake() --->  step: `seconds` after the first head without a signature,
sign the last one, and store it
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import Final

from streams.answers.heads import StoredHead
from streams.clock import Clock
from streams.errors import Refused, Unavailable
from streams.evidence.answers_head import AnswersHead, open_head, sign_head
from streams.evidence.keys import SigningKey, Verifier
from streams.evidence.signed_checkpoint import ANSWERS_SUFFIX, CheckpointInvalid
from streams.evidence.store import write_checkpoint
from streams.tasks.background import THREADS, Background
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
_KEEP: Final = 4  # a file torn by a power loss leaves others
_KEYS: Final = "keys"
_STOP_S: Final = 5.0


class AnswersHeadFolder:
    """Reads and writes the signed heads of one partition's answers.

    Args:
        own: the folder of this log's checkpoints; heads are written there.
        folders: all folders of this ledger's checkpoints, whose heads are compared.
        key: signs; heads of the other keys in these folders are believed, too.
    """

    def __init__(
        self, own: Path, folders: Iterable[Path], partition: int, ledger: str, key: SigningKey
    ) -> None:
        self._own = own / str(partition)
        self._folders = {own, *folders}
        self._partition = partition
        self._ledger = ledger
        self._key = key

    def load(self) -> list[StoredHead]:
        """Return the signed heads that are there.

        Raises: Unavailable: they cannot be read.
        """
        return signed_heads(self._folders, self._partition, self._ledger, self._key.verifier)

    def put(self, head: StoredHead, at: int) -> tuple[AnswersHead, bytes]:
        """Sign and store a head, and delete old ones; return it with its signed text.

        Raises: Unavailable: it cannot be stored.
        """
        place = self._ledger, self._partition, head.branch, head.begun
        signed = AnswersHead(*place, head.head.number, head.head.hash, at)
        text = sign_head(signed, self._key)
        write_checkpoint(self._own, signed, text)
        files = sorted(_heads_in(self._own), key=_order)
        for old in files[:-_KEEP]:
            old.unlink(missing_ok=True)
        return signed, text


def signed_heads(
    folders: Iterable[Path], partition: int, ledger: str, *own: Verifier
) -> list[StoredHead]:
    """Return the signed heads of one partition's answers in some folders.

    Args:
        folders: of a ledger's checkpoints; the keys that they name are believed.
        own: keys that are believed as well.
    Raises: Unavailable: they cannot be read.
    """
    found, named = list[StoredHead](), list(folders)
    try:
        known = _known_keys(named, own)
        for file in chain.from_iterable(_heads_in(each / str(partition)) for each in named):
            with contextlib.suppress(CheckpointInvalid, FileNotFoundError):
                head = open_head(file.read_bytes(), known)
                if (head.ledger, head.partition) == (ledger, partition):
                    found.append(head.stored)
    except (OSError, UnicodeDecodeError) as error:
        raise Unavailable(f"heads of answers cannot be read: {error}") from error
    return found


def _known_keys(folders: Iterable[Path], own: Iterable[Verifier]) -> list[Verifier]:
    files = [each / _KEYS for each in folders]
    lines = [line for file in files if file.exists() for line in file.read_text("ascii").split()]
    keys = {each.text: each for each in own}
    for line in lines:
        with contextlib.suppress(Refused):
            keys.setdefault(line, Verifier.parse(line))
    return list(keys.values())


def _heads_in(folder: Path) -> list[Path]:
    return list(folder.glob(f"*{ANSWERS_SUFFIX}"))


def _order(file: Path) -> tuple[int, ...]:
    return tuple(map(int, file.name.split("-", 3)[:3]))


class AnswersHeadSigner:
    """Signs and stores the heads of one partition's answers.

    Args:
        open_folder: opens the folder; called again until it succeeds.
        seconds: the minimum time between two signatures.
        send: gets each stored head with its signed text; must not block.
        background: calls the steps.
    """

    def __init__(
        self,
        open_folder: Callable[[], AnswersHeadFolder],
        clock: Clock,
        *,
        seconds: float,
        send: Callable[[AnswersHead, bytes], None] | None = None,
        background: Background = THREADS,
    ) -> None:
        self._open_folder = open_folder
        self._clock = clock
        self._seconds = seconds
        self._send = send
        self._steady = background.steady
        self._runner = background.runner(self, "answers-heads")
        self._head: StoredHead | None = None
        self._done: StoredHead | None = None
        self._due: float | None = None
        self.trouble: str | None = None

    def wake(self, head: StoredHead) -> None:
        """Report a head that was written. Does not wait."""
        self._head = head
        self._runner.wake()

    def close(self) -> None:
        """Sign the last head, and end; wait a few seconds at most."""
        self._runner.stop()
        self._runner.join(_STOP_S)

    def step(self) -> float | None:
        """Sign the last head, `seconds` after there was one to sign."""
        if self._head == self._done:
            return None
        now = self._steady()
        if self._due is None:
            self._due = now + self._seconds
        if now < self._due:
            return self._due - now
        self._due = None
        self.finish()
        return self._seconds if self.trouble is not None else 0

    def finish(self) -> None:
        """Sign the last head, unless that was done."""
        head = self._head
        if head is None or head == self._done:
            return
        try:
            done = self._open_folder().put(head, self._clock.now())
        except (Unavailable, Refused) as error:
            if self.trouble != str(error):
                _log.warning("answers_head_not_signed", why=str(error), then="answers go on")
            self.trouble = str(error)
            return
        self._done, self.trouble = head, None
        if self._send is not None:
            self._send(*done)
