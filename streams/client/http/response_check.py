"""Checks that the response to a read is about the requested dataset.

A proxy or a cache may return a real response of the server about another dataset.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import httpx

from accountant.records.http_bodies import Problem
from streams.errors import Unreadable

_MAX_SHOWN: Final = 100
# A gateway's 404 for a name or an id; any other 404 comes from another kind of server.
_NOT_FOUND: Final = frozenset({("unknown_dataset", "dataset"), ("not_found", "request_id")})


def check_names(url: str, rows: Iterable[object], **asked: object) -> None:
    """Check that each row of a response has the requested names.

    Args:
        asked: the names, by the field of a row.
    Raises: Unreadable: a row has another name, or none.
    """
    for row in rows:
        for field, name in asked.items():
            found = getattr(row, field)
            if found != name:
                raise _mismatch(url, f"{field} {found}" if found else f"no {field}", name)


def check_location(url: str, response: httpx.Response, location: str) -> None:
    """Check that a list, which may be empty, is the requested one.

    Raises: Unreadable: it is another list, or does not say which.
    """
    found = response.headers.get("content-location")
    if found != location:
        raise _mismatch(url, found or "a list without its Content-Location", location)


def is_not_found(url: str, problem: Problem, *names: str) -> bool:
    """Whether a 404 comes from a gateway and is about the requested dataset or id.

    Args:
        names: the dataset, and the request's id where one was asked for.
    Raises: Unreadable: it is about another one.
    """
    if (problem.error, problem.field) not in _NOT_FOUND:
        return False
    asked = names[0] if problem.field == "dataset" else names[-1]
    if problem.value != asked[:_MAX_SHOWN]:
        raise _mismatch(url, f"404 for {problem.field} {problem.value}", asked)
    return True


def _mismatch(url: str, found: str, asked: object) -> Unreadable:
    return Unreadable(
        f"{url} answered with {found[: 2 * _MAX_SHOWN]}, not with {asked}: a proxy or a "
        "cache may mix up responses. Connect to the gateway directly"
    )
