"""The pages' static files: two style sheets and an icon, from this package alone."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from litestar import Response, get

_BELOW: Final = "/pages/static"
_FOLDER: Final = Path(__file__).parent / "static"
_KINDS: Final = {
    "page.css": "text/css",
    "dataset.css": "text/css",
    "icon.svg": "image/svg+xml",
}
_FILES: Final = {name: (_FOLDER / name).read_bytes() for name in _KINDS}
_HEADERS: Final = {
    # A year: the address changes with the content.
    "Cache-Control": "public, max-age=31536000, immutable",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}
ADDRESSES: Final = frozenset(f"{_BELOW}/{name}" for name in _KINDS)
"""Public paths: the files are in every copy of this package."""


def address_of(name: str) -> str:
    """Return the address of a file; it changes with the content."""
    digest = hashlib.sha256(_FILES[name]).hexdigest()[:12]
    return f"{_BELOW}/{name}?v={digest}"


def _answer(name: str) -> Response[bytes]:
    return Response(_FILES[name], media_type=_KINDS[name], headers=_HEADERS)


@get(f"{_BELOW}/page.css", include_in_schema=False)
async def style() -> Response[bytes]:
    """Return the style sheet of all pages."""
    return _answer("page.css")


@get(f"{_BELOW}/dataset.css", include_in_schema=False)
async def dataset_style() -> Response[bytes]:
    """Return the style sheet of a dataset's page."""
    return _answer("dataset.css")


@get(f"{_BELOW}/icon.svg", include_in_schema=False)
async def icon() -> Response[bytes]:
    """Return the icon for a browser's tab."""
    return _answer("icon.svg")
