"""What a curator runs of each question, in a thread: derive, read the data, draw the noise."""

from __future__ import annotations

from typing import Protocol

from accountant.questions import Schema
from streams.answers.granted import GrantedQuestion
from streams.curator.draw_guard import DrawGuard


class ClaimDiffers(Exception):
    """The claim that this process derives is not the one that was charged: nothing may run."""


class Answering(Protocol):
    """Makes answers. Any exception of `draw` makes the answer `failed`.

    Nobody repeats the message of such an exception: it may hold data.
    """

    def draw(self, question: GrantedQuestion, schema: Schema, guard: DrawGuard) -> bytes:
        """Return an answer, drawn now, in the calling thread. Nobody else has it yet.

        Args:
            guard: asked before any noise is drawn.
        Raises: ClaimDiffers. NotDrawn: the guard has cut it.
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
