"""The answer about a dataset that the caller does not see, and the name they perhaps meant."""

from __future__ import annotations

import asyncio
from typing import Final

from litestar import Response

from accountant.suggest import closest
from streams.auth.principal import principal_of
from streams.auth.visibility import visibility_of
from streams.errors import Unavailable
from streams.http.context import HttpRequest, context_of
from streams.http.problems import problem

_MAX_DATASETS: Final = 10_000
"""Of more datasets none is suggested: an error must stay cheap."""


async def unknown_dataset(request: HttpRequest, dataset: str) -> Response[bytes]:
    """Return 404 with the same words for a hidden dataset and for one that was never opened."""
    name = dataset[:100]
    caller = principal_of(request)
    hidden = ""
    if caller is not None and not caller.administrator:
        hidden = f", or you have no role on it; you are signed in as {caller.name}"
    meant = await did_you_mean(request, dataset)
    return problem(
        404,
        "unknown_dataset",
        f"dataset {name} was never opened{hidden}{meant}",
        field="dataset",
        rule="must have been opened",
        value=name,
    )


async def did_you_mean(request: HttpRequest, dataset: str) -> str:
    """Return "; did you mean NAME?", or ""."""
    meant = await closest_dataset(request, dataset)
    return f"; did you mean {meant}?" if meant else ""


async def closest_dataset(request: HttpRequest, dataset: str) -> str:
    """Return the most similar name among the datasets that the caller sees, or ""."""
    try:
        views = await context_of(request).service.datasets()
        if len(views) > _MAX_DATASETS:
            return ""
        visibility = visibility_of(request)
        # In a thread: membership checks of thousands of datasets would delay other requests.
        return await asyncio.to_thread(
            lambda: closest(dataset, [view.dataset for view in visibility.among(views)])
        )
    except Unavailable:  # the answer itself does not depend on a suggestion
        return ""
