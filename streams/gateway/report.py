"""GET /datasets/{dataset}/report: what was asked, granted and spent in a period."""

from __future__ import annotations

import asyncio
from io import BytesIO
from typing import Annotated, Final

from litestar import Response, get
from litestar.params import FromPath, QueryParameter

from accountant.errors import RequestInvalid
from accountant.foreign_text import csv_text
from accountant.records import encode
from accountant.views.period import parse_period
from accountant.views.period_report import (
    REPORT_BYS,
    PeriodReport,
    may_report,
    report_columns,
    report_rows,
)
from streams.auth.decision_pages import log_reading
from streams.auth.unknown_dataset import unknown_dataset
from streams.auth.visibility import visibility_of
from streams.files.parquet import missing_parquet, write_parquet
from streams.gateway.files import CSV, PARQUET, download
from streams.http.context import HttpRequest, context_of
from streams.http.problems import JSON
from streams.http.refusal import forbidden

FORMATS: Final = ("json", "csv", "parquet")
# An empty text is one that is not given, as a form sends it.
_MONTH: Final = {"pattern": "^([12][0-9]{3}-(0[1-9]|1[0-2]))?$"}
_DAY: Final = {"anyOf": [{"format": "date"}, {"maxLength": 0}]}


@get("/datasets/{dataset:str}/report", tags=["datasets"])
async def show_report(
    request: HttpRequest,
    dataset: FromPath[str],
    month: Annotated[
        str,
        QueryParameter(
            description="a month in UTC, such as 2026-10; instead of `from` and `to`",
            schema_extra=_MONTH,
        ),
    ] = "",
    first: Annotated[
        str,
        QueryParameter(
            name="from", description="the first day, such as 2026-10-01, in UTC", schema_extra=_DAY
        ),
    ] = "",
    last: Annotated[
        str,
        QueryParameter(
            name="to", description="the last day, such as 2026-10-31, in UTC", schema_extra=_DAY
        ),
    ] = "",
    form: Annotated[
        str,
        QueryParameter(
            name="format",
            description="json, or csv or parquet for one of the tables",
            schema_extra={"enum": list(FORMATS)},
        ),
    ] = "json",
    by: Annotated[
        str,
        QueryParameter(
            description="the table for CSV and Parquet; JSON has all",
            schema_extra={"enum": list(REPORT_BYS)},
        ),
    ] = "month",
) -> Response[bytes]:
    """Return what was asked, granted and spent on a dataset in a period.

    For callers who see everybody's requests. A lead gets the team's alone, since each analyst has
    joined. A caller who does not see the members gets no other team.
    """
    if form not in FORMATS:
        raise RequestInvalid("format", f"must be one of {', '.join(FORMATS)}", form)
    period = parse_period(month, first, last)
    found = await visibility_of(request).dataset(dataset)
    if found is None:
        return await unknown_dataset(request, dataset)
    _, access = found
    if not may_report(access):
        why = f"a report shows everybody's requests, which you may not see on dataset {dataset}"
        raise forbidden(request, "read", why)
    log_reading(request, dataset, reads_others=access.reads_others)
    report = await context_of(request).service.report(dataset, period, access=access)
    if report is None:
        return await unknown_dataset(request, dataset)
    if form == "json":
        return Response(encode(report), media_type=JSON)
    return await report_file(report, by, form)


async def report_file(report: PeriodReport, by: str, form: str) -> Response[bytes]:
    """Return one table of a report as a download, `form` csv or parquet.

    Raises: RequestInvalid: there is no such table, or this server cannot write Parquet.
    """
    table = next((each for each in REPORT_BYS if each == by), None)
    if table is None:
        raise RequestInvalid("by", f"must be one of {', '.join(REPORT_BYS)}", by[:100])
    columns, rows = report_columns(table), report_rows(report, table)
    days = "-to-".join(filter(None, (report.first, report.last)))
    name = "-".join(filter(None, (report.dataset, table, days)))
    if form == "csv":
        body = (await asyncio.to_thread(csv_text, columns, rows)).encode()
        return download(f"{name}.csv", body, CSV)
    if missing := missing_parquet():
        raise RequestInvalid("format", f"must be csv on this server: {missing}", form)
    out = BytesIO()
    await asyncio.to_thread(write_parquet, out, columns, rows)
    return download(f"{name}.parquet", out.getvalue(), PARQUET)
