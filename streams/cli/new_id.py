"""`accountant id`: a request id, for those who write requests themselves."""

from __future__ import annotations

from streams.cli.printing.say import say


def new() -> None:
    """Print a new request id: a UUIDv7 with this machine's time.

    Make it once for a request, and send the same one with every retry.
    """
    from streams.client.requests import new_id
    from streams.clock import SystemClock

    say(new_id(SystemClock()))
