"""For notebooks: frames of pandas and Arrow, and what a client and a reply are shown as."""

from __future__ import annotations

from streams.client.notebooks.display import client_html, reply_html
from streams.client.notebooks.frames import rows_of, to_arrow, to_pandas

__all__ = ["client_html", "reply_html", "rows_of", "to_arrow", "to_pandas"]
