"""GET /datasets/{dataset}/why: who used a budget, and how much longer it lasts."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

from litestar import Response, get
from litestar.params import FromPath, QueryParameter

from accountant.errors import RequestInvalid
from accountant.foreign_text import csv_text
from accountant.records import encode
from accountant.records.names import is_name
from accountant.views.visibility import why_as_seen
from accountant.views.why import WHY_BYS, columns, rows
from streams.auth.decision_pages import note_reading
from streams.auth.visibility import sight_of
from streams.http.context import HttpRequest, context_of
from streams.http.problems import JSON, never_opened

CSV: Final = "text/csv"


def csv_file(name: str, text: str) -> Response[bytes]:
    """Return CSV as a file to save: a browser shows none of it, and takes it for nothing else."""
    # A dataset's name may hold `:`, which no file's name may everywhere.
    file = f"{name.replace(':', '_')}.csv"
    headers = {
        "Content-Disposition": f'attachment; filename="{file}"',
        "X-Content-Type-Options": "nosniff",
    }
    return Response(text.encode(), media_type=CSV, headers=headers)


@get("/datasets/{dataset:str}/why", tags=["datasets"])
async def show_why(
    request: HttpRequest,
    dataset: FromPath[str],
    analyst: Annotated[
        str | None,
        QueryParameter(
            description="whose row and forecast are told in any case, however little they spent",
            schema_extra={"one_of": None, "type": "string"},
        ),
    ] = None,
    form: Annotated[
        str,
        QueryParameter(
            name="format",
            description="json, or csv for one of its tables",
            schema_extra={"enum": ["json", "csv"]},
        ),
    ] = "json",
    by: Annotated[
        str,
        QueryParameter(
            description="which table as CSV; JSON has all", schema_extra={"enum": list(WHY_BYS)}
        ),
    ] = "analyst",
) -> Response[bytes]:
    """Return who used a dataset, for what and when, and how much longer it lasts.

    Who does not see what others ask gets their own row, grants and forecast alone; who does not
    see who is a member, no teams but their own, and no forecasts of other analysts.
    """
    if form not in {"json", "csv"}:
        raise RequestInvalid("format", "must be json or csv", form)
    table = next((each for each in WHY_BYS if each == by), None)
    if table is None:
        raise RequestInvalid("by", f"must be one of {', '.join(WHY_BYS)}", by)
    if analyst is not None and not is_name(analyst):
        raise RequestInvalid("analyst", "must be a name", analyst[:100])
    found = await sight_of(request).dataset(dataset)
    if found is None:
        return never_opened(dataset)
    _, standing = found
    note_reading(request, dataset, sees_all=standing.sees_all)
    # Who looks on is no user of it: a row of theirs is there only if it is asked for.
    own = "" if standing.sees_all else standing.name
    whose = (analyst if standing.sees_requests else None) or own or None
    why = await context_of(request).service.why(dataset, analyst=whose)
    if why is None:
        return never_opened(dataset)
    seen = why_as_seen(why, standing)
    if form == "json":
        return Response(encode(seen), media_type=JSON)
    body = await asyncio.to_thread(csv_text, columns(table), rows(seen, table))
    return csv_file(f"{dataset}-{table}", body)
