"""Which addresses are pages for people: the only ones at which a browser's cookie counts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote, urlsplit

HOME: Final = "/"
SIGN_IN: Final = "/sign-in"
SIGN_OUT: Final = "/sign-out"
_BELOW: Final = "/pages/"
_OWN: Final = frozenset({HOME, SIGN_IN, SIGN_OUT})
_LONGEST: Final = 2_000
_LOCAL: Final = re.compile(r"/(?:[A-Za-z0-9._~!$&'()*+,;=:@%?-][A-Za-z0-9._~!$&'()*+,;=:@%?/-]*)?")


def is_page(path: str) -> bool:
    """Tell whether a path, as a server gives it, is that of a page; of no API's it is true."""
    return path in _OWN or path.startswith(_BELOW)


def wants_page(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Tell whether who asks takes HTML by name, as browsers do and programs do not."""
    return any(name == b"accept" and b"text/html" in value.lower() for name, value in headers)


def local(text: str) -> str:
    """Return an address to go on to if it is a page of this door, the list otherwise.

    Anything that a browser could take for another site's is none: `//host`, a backslash, a space.
    """
    if len(text) > _LONGEST or _LOCAL.fullmatch(text) is None:
        return HOME
    path = urlsplit(text).path
    goes_on = is_page(path) and path not in {SIGN_IN, SIGN_OUT}
    return text if goes_on else HOME


def sign_in_for(address: str) -> str:
    """Return where to sign in, to go on to an address."""
    wanted = local(address)
    return SIGN_IN if wanted == HOME else f"{SIGN_IN}?next={quote(wanted, safe='/')}"


def dataset_page(dataset: str) -> str:
    """Return the address of a dataset's page."""
    return f"{_BELOW}datasets/{quote(dataset, safe='')}"
