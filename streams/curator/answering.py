"""What a curator runs of each question, in a thread: derive, read the data, draw the noise."""

from __future__ import annotations

from typing import Protocol

from accountant.questions import Schema
from streams.answers.granted import GrantedQuestion
from streams.curator.draw_guard import DrawGuard


class ClaimDiffers(Exception):
    """The claim that this process derives is not the one that was charged: nothing may run."""


class OpenQuestion(Protocol):
    """A question whose source is open, and can be read in full. Draw it once, or close it."""

    def draw(self) -> bytes:
        """Return an answer, drawn now, in the calling thread; nobody else has it yet.

        Raises: SourceAway: nothing was drawn, and the question may be opened again. NotDrawn: the
            guard has cut it.
        """
        ...

    def close(self) -> None:
        """Close the source, if it is open. Never raises."""
        ...


class Answering(Protocol):
    """Makes answers. Any exception but `SourceAway` makes the answer `failed`.

    Nobody repeats the message of such an exception: it may hold data.
    """

    def open(self, question: GrantedQuestion, schema: Schema, guard: DrawGuard) -> OpenQuestion:
        """Open the source of a question, in the calling thread. Nothing is drawn.

        What comes of it does not depend on the question: all on one version have one verdict.

        Args:
            guard: ends what is read, and is asked before any noise is drawn.
        Raises: ClaimDiffers. SourceAway: it may be opened again.
        """
        ...

    def failed(self, question: GrantedQuestion) -> bytes:
        """Return the answer of a question that has none: the same words, whatever happened."""
        ...

    def is_failed(self, answer: bytes) -> bool:
        """Tell whether an answer is one that `failed` made."""
        ...

    def shown(self, answer: bytes) -> str | None:
        """Return the last level that an answer of a session shows, None where it has failed."""
        ...
