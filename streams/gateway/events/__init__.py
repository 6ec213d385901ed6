"""GET /events: from the log as far as a client is behind, then as it happens."""

from streams.gateway.events.route import LAST_EVENT_ID, MOST_STREAMS, stream_events

__all__ = ["LAST_EVENT_ID", "MOST_STREAMS", "stream_events"]
