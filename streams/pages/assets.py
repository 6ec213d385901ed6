"""The pages' static files: a style sheet and an icon, from this package alone."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from litestar import Response, get

_BELOW: Final = "/pages/static"
_FOLDER: Final = Path(__file__).parent / "static"
_KINDS: Final = {
    "page.css": "text/css",
    "icon.svg": "image/svg+xml",
}
STYLES: Final = ("tokens", "page", "components", "forms", "print")
"""The files of the style sheet, in their order."""
_FILES: Final = {
    "page.css": b"".join((_FOLDER / f"{part}.css").read_bytes() for part in STYLES),
    "icon.svg": (_FOLDER / "icon.svg").read_bytes(),
}
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


@get(f"{_BELOW}/icon.svg", include_in_schema=False)
async def icon() -> Response[bytes]:
    """Return the icon for a browser's tab."""
    return _answer("icon.svg")
