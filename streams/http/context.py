"""The context that every handler needs, stored in the application's state."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final, cast

from litestar import Request
from litestar.datastructures import State

from streams.answers.store import AnswerReader
from streams.clock import Clock, SystemClock
from streams.service.ledger_service import LedgerService
from streams.settings import Settings

HttpRequest = Request[None, None, State]
_KEY: Final = "accountant.context"


@dataclass(frozen=True, slots=True)
class Context:
    """The ledger, settings and clock of an HTTP server.

    Attributes:
        clock: decides when memberships expire.
        stopping: set when the server shuts down, so that streams of events end.
        answers: the answers to questions, None where this server has none.
    """

    service: LedgerService
    settings: Settings
    clock: Clock = field(default_factory=SystemClock)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    answers: AnswerReader | None = None


def context_of(request: HttpRequest) -> Context:
    """Return the context of the application that serves a request."""
    # Kept in the scope: a look into the state of the application takes longer.
    context = request.scope.get(_KEY)
    if context is None:
        context = request.app.state.context
        cast(Any, request.scope)[_KEY] = context
    assert isinstance(context, Context)
    return context
