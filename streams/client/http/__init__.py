"""A ledger behind a gateway: its calls, and streams that go on where they were cut."""

from streams.client.http.service import HttpService

__all__ = ["HttpService"]
