"""The paths of pages. Only on these does a browser's session cookie count."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from streams.auth.sign_in_client import CALLBACK

HOME: Final = "/"
SIGN_IN: Final = "/sign-in"
SIGN_OUT: Final = "/sign-out"
START: Final = "/sign-in/start"
"""Where a browser begins to sign in at the provider."""
_BELOW: Final = "/pages/"
OWNED: Final = "/pages/owned"
OPENING: Final = "/pages/open"
"""Where a dataset is opened."""
_SIGNING: Final = frozenset({SIGN_IN, SIGN_OUT, START, CALLBACK})
_LONGEST: Final = 2_000
_SEGMENT: Final = re.compile(r"[^\x00-\x20\x7f-\x9f/\\%]+")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_LOCAL: Final = re.compile(r"/(?:[A-Za-z0-9._~!$&'()*+,;=:@%?-][A-Za-z0-9._~!$&'()*+,;=:@%?/-]*)?")


def is_page(path: str) -> bool:
    """Tell whether a path is a page's; never true for the API's paths."""
    return path == HOME or path in _SIGNING or path.startswith(_BELOW)


def wants_page(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Tell whether a client accepts HTML explicitly, as browsers do and programs do not."""
    return any(name == b"accept" and b"text/html" in value.lower() for name, value in headers)


def local(text: str) -> str:
    """Return a redirect target if it is a page of this server, else the list of datasets.

    This prevents open redirects. Rejected is whatever a browser could take for another site or
    another path than the one that is checked here: `//host`, a backslash, a space, dot segments,
    and what decodes to one of these or has to be decoded twice.
    """
    if len(text) > _LONGEST or _LOCAL.fullmatch(text) is None:
        return HOME
    try:
        parts = urlsplit(text)
        segments = [unquote(each, errors="strict") for each in parts.path.split("/")[1:]]
        query = unquote(parts.query, errors="strict")
    except ValueError:
        return HOME
    is_plain = parts.path == HOME or all(map(_is_plain, segments))
    goes_on = is_plain and is_page(parts.path) and parts.path not in _SIGNING
    return text if goes_on and _CONTROL.search(query) is None else HOME


def _is_plain(segment: str) -> bool:
    """Tell whether a decoded segment of a path is one for every browser and proxy."""
    return _SEGMENT.fullmatch(segment) is not None and segment not in {".", ".."}


def sign_in_for(address: str) -> str:
    """Return the sign-in address that continues to another address afterwards."""
    wanted = local(address)
    return SIGN_IN if wanted == HOME else f"{SIGN_IN}?next={quote(wanted, safe='/')}"


def dataset_page(dataset: str) -> str:
    """Return the address of a dataset's page."""
    return f"{_BELOW}datasets/{quote(dataset, safe='')}"
