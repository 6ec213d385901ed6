"""GET /datasets/{dataset}/why: who used a budget, and when it may run out."""

from __future__ import annotations

import asyncio
from typing import Annotated

from litestar import Response, get
from litestar.params import FromPath, QueryParameter

from accountant.errors import RequestInvalid
from accountant.foreign_text import csv_text
from accountant.records import encode
from accountant.records.names import check_name
from accountant.views.visibility import visible_why
from accountant.views.why import WHY_BYS, columns, rows
from streams.auth.decision_pages import log_reading
from streams.auth.unknown_dataset import unknown_dataset
from streams.auth.visibility import visibility_of
from streams.gateway.files import CSV, download
from streams.http.context import HttpRequest, context_of
from streams.http.problems import JSON


@get("/datasets/{dataset:str}/why", tags=["datasets"])
async def show_why(
    request: HttpRequest,
    dataset: FromPath[str],
    analyst: Annotated[
        str | None,
        QueryParameter(
            description="include this analyst's row and forecast, however little they spent",
            schema_extra={"one_of": None, "type": "string"},
        ),
    ] = None,
    form: Annotated[
        str,
        QueryParameter(
            name="format",
            description="json, or csv for one of the tables",
            schema_extra={"enum": ["json", "csv"]},
        ),
    ] = "json",
    by: Annotated[
        str,
        QueryParameter(
            description="the table for CSV; JSON has all", schema_extra={"enum": list(WHY_BYS)}
        ),
    ] = "analyst",
) -> Response[bytes]:
    """Return who used a dataset, for what and when, and how much longer it lasts.

    A caller who may not see others' requests gets only their own row, grants and forecast. A
    caller who may not see the members gets only their own team, and no forecasts of other analysts.
    """
    if form not in {"json", "csv"}:
        raise RequestInvalid("format", "must be json or csv", form)
    table = next((each for each in WHY_BYS if each == by), None)
    if table is None:
        raise RequestInvalid("by", f"must be one of {', '.join(WHY_BYS)}", by)
    if analyst is not None:
        check_name("analyst", analyst)
    found = await visibility_of(request).dataset(dataset)
    if found is None:
        return await unknown_dataset(request, dataset)
    _, access = found
    log_reading(request, dataset, reads_others=access.reads_others)
    # Owners and auditors use no budget themselves: their row appears only on request.
    own = "" if access.sees_all else access.name
    whose = (analyst if access.sees_requests else None) or own or None
    why = await context_of(request).service.why(dataset, analyst=whose)
    if why is None:
        return await unknown_dataset(request, dataset)
    visible = visible_why(why, access)
    if form == "json":
        return Response(encode(visible), media_type=JSON)
    body = await asyncio.to_thread(csv_text, columns(table), rows(visible, table))
    return download(f"{dataset}-{table}.csv", body.encode(), CSV)
