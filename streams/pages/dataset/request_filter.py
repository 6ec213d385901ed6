"""The filter of the requests on a dataset's page: by analyst, team and outcome, in its address."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import urlencode

from accountant.records.header import DecisionHeader
from accountant.records.members import Member
from accountant.records.request_names import RequestNames
from accountant.times import from_iso

OUTCOMES: Final = ("granted", "refused", "waiting")
_MOST_TEAMS: Final = 20
_LONGEST: Final = 100


class FilterLink(NamedTuple):
    """A link that narrows or widens what is shown; `is_set`: it is what is shown now."""

    words: str
    href: str
    is_set: bool


class RequestFilter(NamedTuple):
    """Which requests are shown; "" for any.

    Attributes:
        analyst: of the request, or the engine that asks for others.
        team: whose current members ask.
        outcome: one of `OUTCOMES`.
    """

    analyst: str = ""
    team: str = ""
    outcome: str = ""

    @property
    def query(self) -> dict[str, str]:
        """The parameters of the page's address."""
        named = {"by": self.analyst, "team": self.team, "outcome": self.outcome}
        return {f"requests_{name}": text for name, text in named.items() if text}

    def names(self, members: Sequence[Member]) -> Collection[str] | None:
        """Return whose requests are shown, None for everybody's.

        Args:
            members: those that the viewer may see.
        """
        if not self.analyst and not self.team:
            return None
        of_team = {each.member for each in members if each.team == self.team}
        if not self.analyst:
            return of_team
        return {self.analyst} if not self.team else of_team & {self.analyst}

    def admits(
        self, header: DecisionHeader, asked: RequestNames, names: Collection[str] | None, now: int
    ) -> bool:
        """Tell whether a request is shown.

        Args:
            names: as `names` returns them.
            now: milliseconds since 1970.
        """
        if names is not None and asked.analyst not in names and asked.via not in names:
            return False
        outcome = header.outcome
        return {
            "granted": outcome.charges,
            "refused": outcome.is_refusal,
            "waiting": header.pending is not None
            and outcome.waits
            and now < from_iso(header.pending.until),
        }.get(self.outcome, True)


def filter_of(query: Mapping[str, str]) -> RequestFilter:
    """Return the filter in a page's address."""
    outcome = query.get("requests_outcome", "")
    return RequestFilter(
        query.get("requests_by", "")[:_LONGEST],
        query.get("requests_team", "")[:_LONGEST],
        outcome if outcome in OUTCOMES else "",
    )


def filter_links(
    shown: RequestFilter, page: str, members: Sequence[Member]
) -> list[tuple[str, list[FilterLink]]]:
    """Return the links of each kind, with its name.

    Args:
        page: the address of the page. `members`: those that the viewer may see.
    """
    teams = sorted({each.team for each in members if each.team})[:_MOST_TEAMS]
    outcomes = [shown._replace(outcome=each) for each in ("", *OUTCOMES)]
    rows = [("Outcome", [_link(each, shown, page, each.outcome) for each in outcomes])]
    if len(teams) > 1 or shown.team:
        of_teams = [shown._replace(team=each) for each in ("", *teams)]
        rows.append(("Team", [_link(each, shown, page, each.team) for each in of_teams]))
    if shown.analyst:
        of_analyst = [shown._replace(analyst=""), shown]
        rows.append(("Analyst", [_link(each, shown, page, each.analyst) for each in of_analyst]))
    return rows


def _link(wanted: RequestFilter, shown: RequestFilter, page: str, words: str) -> FilterLink:
    query = f"?{urlencode(wanted.query)}" if wanted.query else ""
    return FilterLink(words or "all", f"{page}{query}#requests", wanted == shown)
