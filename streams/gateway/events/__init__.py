"""GET /events: first the decisions that a client has missed, from the log; then live ones."""

from streams.gateway.events.route import LAST_EVENT_ID, MAX_STREAMS, stream_events

__all__ = ["LAST_EVENT_ID", "MAX_STREAMS", "stream_events"]
