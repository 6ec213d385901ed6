"""What every handler needs, kept in the application's state."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from litestar import Request
from litestar.datastructures import State

from streams.clock import Clock, SystemClock
from streams.service import LedgerService
from streams.settings import Settings

HttpRequest = Request[None, None, State]


@dataclass(frozen=True, slots=True)
class Context:
    """The door's surroundings.

    Attributes:
        clock: by which memberships end.
        stopping: set once the server is to end, so that streams do.
    """

    service: LedgerService
    settings: Settings
    clock: Clock = field(default_factory=SystemClock)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)


def context_of(request: HttpRequest) -> Context:
    """Return the context that `create_app` was given."""
    context = request.app.state.context
    assert isinstance(context, Context)
    return context
