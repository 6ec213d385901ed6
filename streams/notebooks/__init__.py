"""For notebooks: pandas and Arrow tables, and HTML displays of clients and replies."""

from __future__ import annotations

from streams.notebooks.display import client_html, reply_html
from streams.notebooks.frames import rows_of, to_arrow, to_pandas

__all__ = ["client_html", "reply_html", "rows_of", "to_arrow", "to_pandas"]
