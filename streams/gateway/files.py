"""Tables as downloads."""

from __future__ import annotations

from typing import Final

from litestar import Response

CSV: Final = "text/csv"
PARQUET: Final = "application/vnd.apache.parquet"


def download(name: str, body: bytes, media_type: str) -> Response[bytes]:
    """Return a file as a download. A browser neither displays it nor guesses another type."""
    # Names may contain `:`, which some file systems do not allow.
    headers = {
        "Content-Disposition": f'attachment; filename="{name.replace(":", "_")}"',
        "X-Content-Type-Options": "nosniff",
    }
    return Response(body, media_type=media_type, headers=headers)
