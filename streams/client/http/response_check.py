"""An answer is the answer to a question: what a client compares before it believes a read.

A proxy or a cache may answer with what a gateway has really said of another dataset.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import httpx

from accountant.records.http_bodies import Problem
from streams.errors import Unreadable

_MAX_SHOWN: Final = 100
# What a gateway says of a name or an id; any other 404 is of some other server.
_NOT_FOUND: Final = frozenset({("unknown_dataset", "dataset"), ("not_found", "request_id")})


def check_names(url: str, rows: Iterable[object], **asked: object) -> None:
    """Check that each row of an answer names what was asked for.

    Args:
        asked: the names, by the field of a row.
    Raises: Unreadable: a row names something else, or nothing.
    """
    for row in rows:
        for field, name in asked.items():
            found = getattr(row, field)
            if found != name:
                raise _mismatch(url, f"{field} {found}" if found else f"no {field}", name)


def check_location(url: str, response: httpx.Response, location: str) -> None:
    """Check that a list, which may be empty, is the one that was asked for.

    Raises: Unreadable: it is another one, or does not say which.
    """
    found = response.headers.get("content-location")
    if found != location:
        raise _mismatch(url, found or "a list without its Content-Location", location)


def is_not_found(url: str, problem: Problem, name: str) -> bool:
    """Tell whether a 404 is a gateway's word that what was asked for is not there.

    Args:
        name: of the dataset, or the request's id.
    Raises: Unreadable: it is about another one.
    """
    if (problem.error, problem.field) not in _NOT_FOUND:
        return False
    if problem.value != name[:_MAX_SHOWN]:
        raise _mismatch(url, f"404 for {problem.field} {problem.value}", name)
    return True


def _mismatch(url: str, found: str, asked: object) -> Unreadable:
    return Unreadable(
        f"{url} answered with {found[: 2 * _MAX_SHOWN]}, not with {asked}: does a proxy or a "
        "cache mix answers up? Connect to the gateway itself"
    )
