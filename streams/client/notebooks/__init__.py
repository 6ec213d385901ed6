"""For notebooks: frames of pandas and Arrow, and what a client and a reply are shown as."""

from __future__ import annotations

from streams.client.notebooks.frames import rows_of, to_arrow, to_pandas
from streams.client.notebooks.shown import client_html, reply_html

__all__ = ["client_html", "reply_html", "rows_of", "to_arrow", "to_pandas"]
