"""Which request an error is of: it may have been charged, and then only its id saves the grant."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

from streams.client.requests import PreparedRequest, Wanted

NOT_SENT: Final = "not charged"
IN_DOUBT: Final = "may be charged; call again with this request_id, which is never charged twice"
GRANTED: Final = "charged"
RELEASED: Final = "charged; release again with this request_id, which is not charged again"


def note_request(error: BaseException, call: PreparedRequest | Wanted, known: str) -> None:
    """Put the id of a request on an error, as its `request_id` and as a note.

    A note that is there already knows more: it is of where the error was raised.
    """
    with contextlib.suppress(AttributeError, TypeError):  # a class may allow no attribute
        error.request_id = call.request_id  # type: ignore[attr-defined]
    said = f"request_id {call.request_id}: "
    if any(str(note).startswith(said) for note in getattr(error, "__notes__", ())):
        return
    if isinstance(call, PreparedRequest) and call.source == "admin":
        known = known.replace("charged", "recorded")
    error.add_note(said + known)


@contextlib.contextmanager
def noted(call: PreparedRequest | Wanted, known: str = IN_DOUBT) -> Iterator[None]:
    """Have every error that leaves the block carry the id of a request.

    Args:
        known: what is known within the block of its charge.
    """
    try:
        yield
    except BaseException as error:
        note_request(error, call, known)
        raise
