"""Which request an error is of: it may have been charged, and then only its id saves the grant."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Final

from streams.client.requests import PreparedRequest, RequestDraft

NOT_SENT: Final = "not charged"
IN_DOUBT: Final = "may be charged; call again with this request_id, which is never charged twice"
GRANTED: Final = "charged"
RELEASED: Final = "charged; release again with this request_id, which is not charged again"


def note_request(error: BaseException, call: PreparedRequest | RequestDraft, known: str) -> None:
    """Put the id of a request on an error, as its `request_id` and as a note.

    A note that is there already knows more: it is of where the error was raised. A class of a
    user's own may take neither, by whatever error: the error itself is what leaves then.
    """
    with contextlib.suppress(Exception):
        error.request_id = call.request_id  # type: ignore[attr-defined]
    with contextlib.suppress(Exception):
        said = f"request_id {call.request_id}: "
        if any(str(note).startswith(said) for note in getattr(error, "__notes__", ())):
            return
        if isinstance(call, PreparedRequest) and call.source == "admin":
            known = known.replace("charged", "recorded")
        BaseException.add_note(error, said + known)


class OnError:
    """A block whose errors are handed to a function on their way out.

    A generator's context sets the traceback of an error anew, which a frozen class refuses.
    """

    def __init__(self, handle: Callable[[BaseException], None]) -> None:
        self._handle = handle

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, _at: object) -> None:
        if error is not None:
            self._handle(error)


def noting_errors(call: PreparedRequest | RequestDraft, known: str = IN_DOUBT) -> OnError:
    """Have every error that leaves the block carry the id of a request.

    Args:
        known: what is known within the block of its charge.
    """
    return OnError(lambda error: note_request(error, call, known))
