"""The request of a command: its id, which every way out of the command names."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import typer

from accountant.times import issued_at
from streams.cli.printing.exits import complain, fail
from streams.cli.printing.print_decision import print_decision
from streams.cli.printing.safe_streams import output_error
from streams.cli.printing.signals import SignalsRaise

if TYPE_CHECKING:
    from accountant.display.limits import Whole
    from accountant.records import Decision

CHARGED_ONCE: Final = "it is never charged twice"
DECIDED_ONCE: Final = "it is decided once"


class CommandRequest:
    """A context in which a command sends a request, and prints its decision.

    The id is known before anything is sent. However the block is left after that, stderr names the
    id, and how to send the same bytes again: after an error, a signal, or lost output.

    Args:
        request_id: of an earlier attempt; None makes a new one.
        promise: what holds of a request that is sent again.
        again: what to do instead, of a command that takes no `--id`.
    Raises: RequestInvalid: the id is none.

    Attributes:
        id: of the request.
        is_new: this command made the id, so a repeat comes from its own retry.
    """

    def __init__(
        self, request_id: str | None, *, promise: str = DECIDED_ONCE, again: str | None = None
    ) -> None:
        from accountant.records.coerce import coerce_id
        from streams.client.requests.requests import OwnId, new_id
        from streams.clock import SystemClock

        self.is_new = request_id is None
        self.id = OwnId(new_id(SystemClock())) if self.is_new else coerce_id(request_id)
        self._promise = promise
        self._again = again
        self._signals = SignalsRaise()
        self._outcome = ""

    @property
    def made_at(self) -> int:
        """When the id was made, in milliseconds since 1970."""
        moment = issued_at(self.id)
        assert moment is not None
        return moment

    @property
    def again(self) -> str:
        """How to send the request again."""
        if self._again is not None:
            return f"request {self.id}: {self._again}"
        return f"run the same command with --id {self.id}; {self._promise}"

    def print(
        self,
        decision: Decision,
        *,
        as_json: bool,
        why: Callable[[], str] | None = None,
        then: Callable[[], str | None] | None = None,
        hint: Callable[[], str | None] | None = None,
        waiting: str = "",
        whole: Whole = "budget",
    ) -> None:
        """Print the decision on the request, see `print_decision`."""
        self.decided(decision)
        print_decision(
            decision,
            as_json=as_json,
            why=why,
            then=then,
            hint=hint,
            waiting=waiting,
            whole=whole,
        )

    def decided(self, decision: Decision) -> None:
        """Remember the decision, for the case that it cannot be printed."""
        self._outcome = str(decision.outcome)

    def __enter__(self) -> Self:
        self._signals.__enter__()
        return self

    def __exit__(self, kind: object, error: BaseException | None, at: TracebackType | None) -> None:
        self._signals.hold()
        try:
            if error is None or isinstance(error, typer.Exit):
                self._check_output()
            else:
                self._explain(error)
        finally:
            self._signals.__exit__(kind, error, at)

    def _check_output(self) -> None:
        """Say which decision could not be printed."""
        if self._outcome and output_error() is not None:
            complain(
                f"request {self.id} was decided ({self._outcome}), but it could not be printed",
                hint=self.again,
            )

    def _explain(self, error: BaseException) -> None:
        """End the command for an error that it expects; name the request of any other.

        Raises: typer.Exit.
        """
        from streams.cli.printing.explanations import explain
        from streams.client.questions.answers import AnswerFailed
        from streams.client.requests.request_notes import may_be_sent
        from streams.client.requests.requests import Unanswered
        from streams.client.unconfirmed import Unconfirmed

        # An earlier attempt may have sent an id that is not new. Where a look-up before the request
        # was not answered, the id is good for both.
        named = not self.is_new or self._outcome or may_be_sent(error)
        named = named or isinstance(error, Unanswered)
        # What has failed has failed for ever, and its message names the id. A question back says
        # itself what to do, and the same bytes are only asked back again.
        is_final = isinstance(error, AnswerFailed | Unconfirmed)
        again = self.again if named and not is_final else None
        found = explain(error, again=again)
        if found is not None:
            fail(found.code, found.message, hint=found.hint)
        if named:
            complain(f"request {self.id} may have been sent", hint=self.again)
