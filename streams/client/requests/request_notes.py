"""Puts the id of a request on an error: a charged request can be retried by its id only."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from accountant.errors import BudgetError
from streams.client.requests.requests import PreparedRequest, RequestDraft

NOT_SENT: Final = "not charged"
REJECTED: Final = "not charged: the ledger rejected it"
IN_DOUBT: Final = "may be charged; call again with this request_id, which is never charged twice"
DECIDED: Final = "decided; call again with this request_id to read the decision"
GRANTED: Final = "charged"
STEP: Final = (
    "; the maximum of its reservation stays charged until that ends. Run a session again under its "
    "name"
)
OPEN_SESSION: Final = (
    "the maximum stays charged until the session ends; reserve again with this request_id, or "
    "under the session's name, which ends it"
)
RELEASED: Final = "charged; release again with this request_id, which is not charged again"


_NAMED: Final = 20
"""The most ids of a batch that a note names; `request_ids` of the error has all."""
Error = TypeVar("Error", bound=BaseException)


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


def note_requests(error: BaseException, ids: Iterable[str]) -> None:
    """Put the ids of a batch on an error, as `request_ids` and as a note."""
    named = list(ids)
    if not named:
        return
    with contextlib.suppress(Exception):
        error.request_ids = tuple(named)  # type: ignore[attr-defined]
    with contextlib.suppress(Exception):
        more = len(named) - _NAMED
        rest = f" and {more:,} more (all are in the error's `request_ids`)" if more > 0 else ""
        said = f"request_ids {', '.join(named[:_NAMED])}{rest}: "
        BaseException.add_note(error, said + IN_DOUBT.replace("this request_id", "these"))


def may_be_sent(error: BaseException) -> bool:
    """Whether the request of an error may have reached the ledger.

    An expected error without an id comes from before the request; the note of another may say that
    it was not sent.
    """
    if isinstance(error, BudgetError) and not hasattr(error, "request_id"):
        return False
    unsent = tuple(f": {said}" for said in (NOT_SENT, NOT_SENT.replace("charged", "recorded")))
    return not any(str(note).endswith(unsent) for note in getattr(error, "__notes__", ()))


def own_copy(error: Error) -> Error:
    """Return a copy of an error, for one request of a batch whose others have the same error."""
    copied = type(error).__new__(type(error), *error.args)
    copied.__dict__.update(error.__dict__)
    copied.__dict__.pop("__notes__", None)
    copied.__cause__, copied.__traceback__ = error.__cause__, error.__traceback__
    return copied


def known_unsent(call: PreparedRequest | RequestDraft, *, rejected: bool = False) -> str:
    """Return what is known of the charge of a call that was not sent, or was rejected.

    An earlier attempt may have sent a step, or an id that was not made for this call.
    """
    if not call.fresh or (isinstance(call, PreparedRequest) and call.is_step):
        return IN_DOUBT
    return REJECTED if rejected else NOT_SENT


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
