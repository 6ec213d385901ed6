"""Puts the id of a request on an error: a charged request can be retried by its id only."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Final

from streams.client.requests import PreparedRequest, RequestDraft

NOT_SENT: Final = "not charged"
IN_DOUBT: Final = "may be charged; call again with this request_id, which is never charged twice"
GRANTED: Final = "charged"
STEP: Final = (
    "; the maximum of its reservation stays charged until that ends. Run a session again under its "
    "name"
)
RELEASED: Final = "charged; release again with this request_id, which is not charged again"


def note_request(error: BaseException, call: PreparedRequest | RequestDraft, known: str) -> None:
    """Put the id of a request on an error, as `request_id` and as a note.

    An existing note comes from where the error was raised and knows more, so it stays. A user's
    own exception class may refuse both; the error itself must still be raised.

    Args:
        known: what is known of the charge, such as `NOT_SENT`.
    """
    with contextlib.suppress(Exception):
        error.request_id = call.request_id  # type: ignore[attr-defined]
    with contextlib.suppress(Exception):
        said = f"request_id {call.request_id}: "
        if any(str(note).startswith(said) for note in getattr(error, "__notes__", ())):
            return
        step = isinstance(call, PreparedRequest) and call.is_step
        if step or (isinstance(call, PreparedRequest) and call.source == "admin"):
            known = known.replace("charged", "recorded")
        known += STEP if step else ""
        BaseException.add_note(error, said + known)


def known_unsent(call: PreparedRequest) -> str:
    """Return what is known of the charge of a call that was not sent, or was rejected.

    An earlier attempt may have sent a step, or an id that was not made for this call.
    """
    is_new = (call.fresh and not call.is_step) or call.source == "admin"
    return NOT_SENT if is_new else IN_DOUBT


class OnError:
    """A context that passes each error to a function before the error leaves.

    This is a class because a context made from a generator sets the error's traceback, which
    frozen exception classes refuse.
    """

    def __init__(self, handle: Callable[[BaseException], None]) -> None:
        self._handle = handle

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, _at: object) -> None:
        if error is not None:
            self._handle(error)


def noting_errors(call: PreparedRequest | RequestDraft, known: str = IN_DOUBT) -> OnError:
    """Put the id of a request on every error that leaves the block.

    Args:
        known: what is known within the block of the charge.
    """
    return OnError(lambda error: note_request(error, call, known))
