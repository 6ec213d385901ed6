"""The mark of a ledger behind a server: a module that needs it alone does not import httpx."""

from __future__ import annotations


class OverHttp:
    """The base of `HttpService`."""
