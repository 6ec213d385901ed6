"""What people read of a period's report, on a page and at a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from accountant.display.spending import without_elsewhere
from accountant.display.times import moment
from accountant.views.period import month_period
from accountant.views.period_report import PeriodReport, ReportBy, ReportRow

_UNNAMED: Final[Mapping[ReportBy, str]] = {"team": "(no team)", "purpose": "(no purpose)"}


def key_words(row: ReportRow, by: ReportBy) -> str:
    """Return what a row counts: its key, or in words that there is none."""
    return row.key or _UNNAMED.get(by, "")


def month_words(row: ReportRow) -> str:
    """Return the month of a row, with its days where they are a part, and that it has not ended."""
    whole, days = month_period(row.month), ""
    if (row.begins, row.ends) != (whole.first, whole.last):
        days = f", {row.begins} to {row.ends}"
    return f"{row.month}{days}{'' if row.ended else ' (not ended)'}"


def period_words(report: PeriodReport) -> str:
    """Return which days a report counts."""
    if report.first and report.last:
        return f"{report.first} to {report.last}"
    if report.first:
        return f"from {report.first} on"
    return f"until {report.last}" if report.last else "all time"


def report_notes(report: PeriodReport, by: ReportBy | None = None) -> list[str]:
    """Return what else to know of a report, a sentence each.

    Args:
        by: the table that is shown; None for all.
    """
    found = []
    if report.team is not None:
        found.append(
            f"Counted are the requests of team {report.team} alone, since each analyst has joined."
        )
    if by == "team":
        found.append("Teams are those of the members now, whatever they were at the time.")
    if words := without_elsewhere("The tables", report.unit, report.elsewhere):
        found.append(f"{words}.")
    if report.since is not None:
        found.append(
            f"Older decisions are in an archive of the log: counted are those since "
            f"{moment(report.since)}."
        )
    return found
