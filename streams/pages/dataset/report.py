"""Reports of a dataset in a period: a page to print, CSV and Parquet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from litestar import Response, get
from litestar.params import FromPath

from accountant.display.datasets import present_guarantee
from accountant.display.numbers import part_of, spent_amount, symbol
from accountant.display.reports import key_words, month_words, period_words, report_notes
from accountant.display.spending import sums_of
from accountant.errors import RequestInvalid
from accountant.times import iso
from accountant.views.datasets import DatasetView
from accountant.views.ledgers import held_ratio_of
from accountant.views.period import Period, months_between, parse_period
from accountant.views.period_report import (
    REPORT_BYS,
    PeriodReport,
    ReportBy,
    may_report,
)
from accountant.views.visibility import DatasetAccess
from streams.auth.decision_pages import log_reading
from streams.auth.visibility import visibility_of
from streams.errors import Unavailable
from streams.files.parquet import missing_parquet
from streams.gateway.report import report_file
from streams.http.context import HttpRequest, context_of
from streams.pages.dataset.bars import Bar, bar_of
from streams.pages.dataset.form_data import FormData, with_error
from streams.pages.dataset.unseen import dataset_not_found
from streams.pages.paths import dataset_page as dataset_address
from streams.pages.render import HEADERS, render_page

_NAMES: Final = ("month", "from", "to")
_WHOLE: Final = "all"
"""In place of a month: all time."""
_MOST_ROWS: Final = 200
_MOST_MONTHS: Final = 12


class _ReportLine(NamedTuple):
    """What was asked, granted and spent in a month, by a team or for a purpose."""

    month: str
    key: str
    bar: Bar
    spent: str
    granted: int
    refused: int


class _ReportSection(NamedTuple):
    """One table: its key, its first rows, how many more there are, and its exports."""

    by: str
    rows: list[_ReportLine]
    more: int
    csv: str
    parquet: str


class _MonthLink(NamedTuple):
    """A link to the report of another month, or of all time."""

    words: str
    href: str
    is_shown: bool


@get("/pages/datasets/{dataset:str}/report", include_in_schema=False)
async def report_page(request: HttpRequest, dataset: FromPath[str]) -> Response[Any]:
    """Return the page with all tables, to be printed.

    Query parameters: `month`, such as 2026-10 or `all`; or `from` and `to`. By default this month.
    """
    found = await _allowed(request, dataset)
    if isinstance(found, Response):
        return found
    view, access = found
    (view,) = await visibility_of(request).with_joint([view])
    form, period = _form(request), None
    try:
        period = _period(request, form)
    except RequestInvalid as error:
        form = with_error(form, error)
    report = None if period is None else await _report(request, view, access, period)
    first, *_ = sums_of(view)
    address = f"{dataset_address(dataset)}/report"
    return render_page(
        request,
        "dataset/report.html",
        status=200 if report is not None else 422,
        page_url=address,
        again=f"{address}?{urlencode({name: text for name, text in form.values.items() if text})}",
        dataset_url=dataset_address(dataset),
        dataset=dataset,
        guarantee=present_guarantee(view),
        unit=view.policy.unit,
        label=view.label,
        state=view.state,
        bar=bar_of(view.spent_ratio, held_ratio_of(view)),
        spent=first.spent,
        f=form,
        months=_month_links(request, view, address, form),
        period="" if report is None else period_words(report),
        notes=[] if report is None else report_notes(report),
        tables=[] if report is None else [_section(report, by, address) for by in REPORT_BYS],
        no_parquet=missing_parquet(),
    )


@get("/pages/datasets/{dataset:str}/report/{form:str}", include_in_schema=False)
async def report_export(
    request: HttpRequest, dataset: FromPath[str], form: FromPath[str]
) -> Response[Any]:
    """Return a table of the report, `form` csv or parquet.

    Query parameters: those of the page, and `by`, one of `REPORT_BYS`.
    """
    found = await _allowed(request, dataset)
    if isinstance(found, Response):
        return found
    if form not in {"csv", "parquet"}:
        raise RequestInvalid("format", "must be csv or parquet", form[:100])
    report = await _report(request, *found, _period(request, _form(request)))
    answer = await report_file(report, str(request.query_params.get("by", "month")), form)
    answer.headers["Cache-Control"] = HEADERS["Cache-Control"]
    return answer


async def _allowed(
    request: HttpRequest, dataset: str
) -> tuple[DatasetView, DatasetAccess] | Response[Any]:
    """Return a dataset of which the caller may have a report, else the page that says no."""
    found = await visibility_of(request).dataset(dataset)
    if found is None:
        return await dataset_not_found(request, dataset)
    if not may_report(found[1]):
        values: dict[str, Any] = {"dataset": dataset, "page_url": dataset_address(dataset)}
        return render_page(request, "dataset/report_not_permitted.html", status=403, **values)
    log_reading(request, dataset, reads_others=found[1].reads_others)
    return found


async def _report(
    request: HttpRequest, view: DatasetView, access: DatasetAccess, period: Period
) -> PeriodReport:
    report = await context_of(request).service.report(view.dataset, period, access=access)
    if report is None:
        raise Unavailable(f"the use of dataset {view.dataset} is not known now")
    return report


def _form(request: HttpRequest) -> FormData:
    values = {name: str(request.query_params.get(name, "")).strip() for name in _NAMES}
    if not any(values.values()):
        values["month"] = _today(request)[:7]
    return FormData("", values)


def _period(request: HttpRequest, form: FormData) -> Period:
    """Return the period of the page's address.

    Raises: RequestInvalid.
    """
    month = form.values["month"]
    return parse_period("" if month == _WHOLE else month, form.values["from"], form.values["to"])


def _today(request: HttpRequest) -> str:
    return iso(context_of(request).clock.now())[:10]


def _month_links(
    request: HttpRequest, view: DatasetView, address: str, form: FormData
) -> list[_MonthLink]:
    known = months_between(view.opened_at[:10], _today(request))[-_MOST_MONTHS:]
    shown = form.values["month"]
    names = [(_WHOLE, "all time"), *((month, month) for month in reversed(known))]
    return [
        _MonthLink(words, f"{address}?{urlencode({'month': name})}", name == shown)
        for name, words in names
    ]


def _section(report: PeriodReport, by: ReportBy, address: str) -> _ReportSection:
    unit, rows = symbol(report.unit), report.table(by)
    query: Mapping[str, str] = {"by": by, **Period(report.first, report.last).query}
    query = query if report.first or report.last else {**query, "month": _WHOLE}
    lines = [
        _ReportLine(
            month=month_words(row),
            key=key_words(row, by),
            bar=bar_of(part_of(row.spent, report.budget)),
            spent=f"{unit} {spent_amount(row.spent)}",
            granted=row.granted,
            refused=row.refused,
        )
        for row in rows[:_MOST_ROWS]
    ]
    csv, parquet = (f"{address}/{form}?{urlencode(query)}" for form in ("csv", "parquet"))
    return _ReportSection(by, lines, max(0, len(rows) - _MOST_ROWS), csv, parquet)
