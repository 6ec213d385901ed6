"""Reports of a dataset by month, team and purpose: a page to print, and CSV."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from litestar import Response, get
from litestar.params import FromPath

from accountant.display.datasets import present_guarantee
from accountant.display.numbers import part_of, spent_amount, symbol
from accountant.foreign_text import csv_text
from accountant.views.datasets import DatasetView
from accountant.views.usage import UsageRow
from accountant.views.visibility import DatasetAccess, visible_why
from accountant.views.why import columns, rows
from accountant.views.why.report import WhyBy
from streams.auth.decision_pages import log_reading
from streams.auth.visibility import visibility_of
from streams.errors import Unavailable
from streams.gateway.why import csv_file
from streams.http.context import HttpRequest, context_of
from streams.pages.dataset.bars import Bar, bar_of, first_of
from streams.pages.dataset.unseen import dataset_not_found
from streams.pages.paths import dataset_page as dataset_address
from streams.pages.render import HEADERS, render_page
from streams.service.ledger_service import LedgerService

_MONTH: Final = "month"
TABLES: Final = (_MONTH, "team", "purpose")
_UNNAMED: Final[Mapping[str, str]] = {"team": "(no team)", "purpose": "(no purpose)"}


class ReportRow(NamedTuple):
    """What was asked, granted and spent in a month, by a team or for a purpose."""

    key: str
    bar: Bar
    spent: str
    granted: int
    refused: int


class ReportTable(NamedTuple):
    """One table: its key, and all its rows."""

    by: str
    rows: list[ReportRow]


class _Numbers(NamedTuple):
    """A table of a report as it is exported."""

    columns: Sequence[str]
    rows: Sequence[dict[str, Any]]


@get("/pages/datasets/{dataset:str}/report", include_in_schema=False)
async def report_page(request: HttpRequest, dataset: FromPath[str]) -> Response[Any]:
    """Return the page with all tables, to be printed."""
    found = await _allowed(request, dataset)
    if isinstance(found, Response):
        return found
    view, access = found
    service = context_of(request).service
    tables = [
        ReportTable(by, _report_rows(view, by, await _numbers(service, view, access, by)))
        for by in TABLES
    ]
    spent, first = view.totals, next(iter(view.budget))
    return render_page(
        request,
        "dataset/report.html",
        page_url=f"{dataset_address(dataset)}/report",
        dataset_url=dataset_address(dataset),
        dataset=dataset,
        guarantee=present_guarantee(view),
        unit=view.policy.unit,
        label=view.label,
        state=view.state,
        bar=bar_of(view.spent_ratio),
        spent=f"{symbol(first)} {spent_amount(str(spent[first]))}",
        counted=symbol(first),
        tables=tables,
    )


@get("/pages/datasets/{dataset:str}/report/csv", include_in_schema=False)
async def report_csv(request: HttpRequest, dataset: FromPath[str]) -> Response[Any]:
    """Return a table of the report as CSV; query parameter: `by`, one of `TABLES`."""
    found = await _allowed(request, dataset)
    if isinstance(found, Response):
        return found
    by = str(request.query_params.get("by", _MONTH))
    by = by if by in TABLES else _MONTH
    numbers = await _numbers(context_of(request).service, *found, by)
    body = await asyncio.to_thread(csv_text, numbers.columns, numbers.rows)
    answer = csv_file(f"{dataset}-{by}", body)
    answer.headers["Cache-Control"] = HEADERS["Cache-Control"]
    return answer


async def _allowed(
    request: HttpRequest, dataset: str
) -> tuple[DatasetView, DatasetAccess] | Response[Any]:
    """Return a dataset whose requests the caller sees, else the page that says no."""
    found = await visibility_of(request).dataset(dataset)
    if found is None:
        return await dataset_not_found(request, dataset)
    (view,), access = await visibility_of(request).with_joint([found[0]]), found[1]
    if not access.sees_requests:
        values: dict[str, Any] = {"dataset": dataset, "page_url": dataset_address(dataset)}
        return render_page(request, "dataset/report_not_permitted.html", status=403, **values)
    log_reading(request, dataset, reads_others=access.reads_others)
    return view, access


async def _numbers(
    service: LedgerService, view: DatasetView, access: DatasetAccess, by: str
) -> _Numbers:
    """Return a table as the caller may see it.

    Raises: Unavailable: the index of usage is behind, or cannot be read.
    """
    if by == _MONTH:
        months = await service.usage_by(view.dataset, _MONTH)
        names = ["dataset", _MONTH, *(n for n in UsageRow.__struct_fields__ if n not in _NOT_SHOWN)]
        return _Numbers(names, [row.as_named_row(_MONTH) for row in months])
    why = await service.why(view.dataset)
    if why is None:
        raise Unavailable(f"the use of dataset {view.dataset} is not known now")
    table: WhyBy = "team" if by == "team" else "purpose"
    return _Numbers(columns(table), rows(visible_why(why, access), table))


_NOT_SHOWN: Final = frozenset({"dataset", "generation", "key", "sequence", "last_decided_at"})


def _report_rows(view: DatasetView, by: str, numbers: _Numbers) -> list[ReportRow]:
    unit, whole = symbol(next(iter(view.budget))), first_of(view.budget)
    return [
        ReportRow(
            key=row[by] or _UNNAMED.get(by, ""),
            bar=bar_of(part_of(row["spent"], whole)),
            spent=f"{unit} {spent_amount(row['spent'])}",
            granted=row["granted"],
            refused=row["refused"],
        )
        for row in numbers.rows
    ]
