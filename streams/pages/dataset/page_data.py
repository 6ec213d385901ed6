"""The data of a dataset's page, limited to what its viewer may see."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET

from accountant.advice.preview import Preview
from accountant.claims import Claim
from accountant.display.current_dataset import CurrentDataset
from accountant.display.datasets import more_words
from accountant.display.endings import ending_words
from accountant.display.expected_errors import error_words
from accountant.display.forecasts import is_too_young
from accountant.display.numbers import counting_amounts, counting_cost, remaining_line, spent_line
from accountant.display.other_filter import other_filter_words
from accountant.display.spending import without_elsewhere
from accountant.display.texts import capital, shorten
from accountant.errors import RequestInvalid
from accountant.records import Decision, decode_decision
from accountant.records.http_bodies import logged_decision
from accountant.records.members import Member
from accountant.records.names import check_name
from accountant.records.previews import PreviewRequest
from accountant.records.requests import Reserve
from accountant.times import iso
from accountant.views.asks import AskView
from accountant.views.datasets import DatasetView
from accountant.views.limit_views import AnalystBudget, ScopeView
from accountant.views.overview import Overview, RecentRequests
from accountant.views.pending import PendingView
from accountant.views.reservations import ReservationView
from accountant.views.visibility import DatasetAccess
from streams.pages.dataset.preview_form import PreviewForm, PreviewResult, claim_of
from streams.pages.dataset.question_form import QuestionForm, ask_of, question_line, question_of
from streams.pages.dataset.request_filter import RequestFilter
from streams.pages.dataset.request_rows import refusal
from streams.pages.dataset.spending import ForecastRow, SpendingChart, forecast_rows, spending
from streams.pages.dataset.usage import RefusalCount, UsageRows, by_key, refusals
from streams.service.dataset_reads import last_pause, latest_releases, recent_requests
from streams.service.ledger_service import LedgerService
from streams.service.visibility import Visibility

_NO_PURPOSE: Final = "(no purpose)"
_ROWS: Final = "The chart and the tables of usage"
_MOST_RESERVATIONS: Final = 50
_MOST_PENDING: Final = 20


class UsageData(NamedTuple):
    """Who used a dataset, and how much longer it lasts.

    Attributes:
        over_time, analysts, purposes: None if the viewer may not see others' requests.
        refused: by reason. `forecasts`: those that the viewer may see.
        is_too_young: there is too little history for a forecast.
        elsewhere: that releases made elsewhere are not in the rows, "" where there are none.
        trouble: why usage is missing, in words; "" if nothing is wrong.
    """

    over_time: SpendingChart | None = None
    analysts: UsageRows | None = None
    purposes: UsageRows | None = None
    refused: tuple[RefusalCount, ...] = ()
    forecasts: tuple[ForecastRow, ...] = ()
    is_too_young: bool = False
    elsewhere: str = ""
    trouble: str = ""


class PreviewOfPending(NamedTuple):
    """A request that waits for approval.

    Attributes:
        preview: the decision that it would get now, None where that is not known.
    """

    request: PendingView
    preview: Preview | None = None


class PageData(NamedTuple):
    """A dataset and everything that its page shows.

    Attributes:
        members: all members for viewers who see all, those of the team for its lead, else the
            viewer's own entry.
        levels: all limits for viewers who see all, those of the team for its lead, else none.
            `budget`: an analyst's own.
        reservations: all open ones for viewers who see all, the team's for its lead, else the
            viewer's own.
        asks: for more, the newest first: all for viewers who see all, else the viewer's own.
        has_more_reservations: there are others, which are not among them.
        pending: requests that wait for approval, likewise, each with the decision that it would
            get now. `has_more_pending`: there are others.
        recent: the latest requests of `viewer.own`; `decisions`: the same, decoded.
        steps: the last step of each reservation among them, by the number of its decision.
        remarks: owners' remarks on each of them, by its number, the newest first.
        pause: the decision that has paused it, None where it is not paused.
        releases: the latest records of releases made elsewhere.
        uses: of a lead's analysts under the default of the team.
    """

    view: DatasetView
    viewer: Viewer
    members: Sequence[Member]
    levels: Sequence[ScopeView]
    budget: AnalystBudget | None
    reservations: Sequence[ReservationView]
    has_more_reservations: bool
    pending: Sequence[PreviewOfPending]
    has_more_pending: bool
    recent: RecentRequests
    decisions: Sequence[Decision]
    steps: Mapping[int, Decision]
    usage: UsageData
    now: int
    pause: Decision | None = None
    remarks: Mapping[int, Sequence[Decision]] = {}
    asks: Sequence[AskView] = ()
    releases: Sequence[Decision] = ()
    uses: Sequence[ScopeView] = ()

    @property
    def team(self) -> str:
        """The viewer's own team, "" for none."""
        own = (each.team for each in self.members if each.member == self.viewer.name)
        return next(own, None) or ""

    @property
    def example(self) -> str:
        """The analyst of the first preview of a lead, themselves if they ask; "" for nobody."""
        if not self.viewer.team or self.viewer.asks:
            return self.viewer.name if self.viewer.team else ""
        return next((each.member for each in self.members if "analyst" in each.roles), "")

    @property
    def current(self) -> CurrentDataset:
        """The dataset as refusals are explained by it."""
        needs_name = not self.viewer.is_authenticated
        return CurrentDataset(self.view, self.levels, self.members, self.pause, needs_name)


async def read_page(visibility: Visibility, dataset: str, now: int) -> PageData | None:
    """Return a dataset's page for a caller; None for an unknown or a hidden dataset.

    Args:
        now: milliseconds since 1970.
    Raises: Unavailable.
    """
    service = visibility.service
    overview = await service.overview(dataset, visibility.caller)
    access = visibility.at(dataset)
    if overview is None or access is None:
        return None
    viewer = viewer_of(visibility, overview.dataset, access)
    found = page_data(overview, viewer, now, await last_pause(service, overview.dataset))
    found = found._replace(releases=await latest_releases(service, overview.dataset))
    if viewer.team:
        uses = await service.default_levels(overview.dataset.dataset)
        found = found._replace(uses=[each for each in uses if access.is_shown(each.analyst)])
    if not overview.pending:
        return found
    waiting = [await _previewed(service, found.view, each) for each in found.pending]
    return found._replace(pending=waiting)


async def _previewed(
    service: LedgerService, view: DatasetView, waiting: PreviewOfPending
) -> PreviewOfPending:
    """Return a request that waits with the decision that it would get now, were it approved.

    Raises: Unavailable.
    """
    asked, policy = waiting.request, view.policy
    is_claim = asked.claim is not None
    terms = PreviewRequest(
        claim=asked.claim or UNSET,
        unit=policy.unit if is_claim else UNSET,
        neighbours=policy.neighbours if is_claim else UNSET,
        analyst=asked.analyst,
        via=asked.via or UNSET,
        reserve=UNSET if asked.reserve is None else Reserve(asked.reserve),
        question=asked.question or UNSET,
        noise=asked.noise or UNSET,
    )
    return waiting._replace(preview=await service.preview(view.dataset, terms))


def page_data(
    overview: Overview, viewer: Viewer, now: int, pause: Decision | None = None
) -> PageData:
    """Return the data of a dataset's page from its overview.

    Args:
        pause: the decision that has paused it.
    """
    return PageData(
        view=overview.dataset,
        viewer=viewer,
        members=overview.members,
        levels=overview.limits,
        budget=overview.budget,
        reservations=overview.reservations[:_MOST_RESERVATIONS],
        has_more_reservations=len(overview.reservations) > _MOST_RESERVATIONS,
        pending=list(map(PreviewOfPending, overview.pending[:_MOST_PENDING])),
        has_more_pending=len(overview.pending) > _MOST_PENDING,
        usage=_usage(overview, viewer, now),
        now=now,
        pause=pause,
        **_requests(overview.requests),
        asks=overview.asks[::-1],
    )


def _requests(recent: RecentRequests) -> dict[str, Any]:
    """Return the parts of a page that are about the latest requests."""
    return {
        "recent": msgspec.structs.replace(recent, trouble=shorten(recent.trouble)),
        "decisions": [_decoded(raw) for raw in recent.decisions],
        "steps": {number: _decoded(raw) for number, raw in recent.steps.items()},
        "remarks": {n: list(map(_decoded, each)) for n, each in recent.remarks.items()},
    }


async def with_filter(service: LedgerService, found: PageData, chosen: RequestFilter) -> PageData:
    """Return a page with the latest requests that a filter admits, of those that it may show.

    Raises: Unavailable.
    """
    if not chosen.query:
        return found
    view, names = found.view, chosen.names(found.members)
    recent = await recent_requests(
        service,
        view.dataset,
        found.viewer.access,
        view.sequence,
        selector=lambda header, asked: chosen.admits(header, asked, names, found.now),
    )
    return found._replace(**_requests(recent))


def _decoded(served: msgspec.Raw) -> Decision:
    return decode_decision(logged_decision(bytes(served))[0])


def _usage(overview: Overview, viewer: Viewer, now: int) -> UsageData:
    view, why = overview.dataset, overview.why
    if overview.trouble:
        return UsageData(trouble=shorten(overview.trouble))
    usage = UsageData()
    if why is not None:
        usage = UsageData(
            refused=refusals(why),
            forecasts=forecast_rows(why, viewer.name),
            is_too_young=any(map(is_too_young, why.forecasts)),
            elsewhere=without_elsewhere(_ROWS, why.unit, why.elsewhere),
        )
    if overview.analysts is None or overview.days is None or overview.purposes is None:
        return usage
    return usage._replace(
        over_time=spending(view, overview.days, iso(now)[:10]),
        analysts=by_key(view, overview.analysts),
        purposes=by_key(view, overview.purposes, unnamed=_NO_PURPOSE),
    )


async def preview_claim(service: LedgerService, found: PageData, form: PreviewForm) -> PreviewForm:
    """Return the form of a preview with the decision that its claim would get.

    Raises: Unavailable.
    """
    view, text = found.view, ""
    policy = view.policy
    try:
        claim, text = claim_of(form)
        name = form.analyst if found.viewer.reads_others else found.viewer.name
        if name:
            check_name("analyst", name)
            if not found.viewer.access.is_shown(name):
                rule = f"must be of team {found.viewer.team}, which you lead"
                raise RequestInvalid("analyst", rule, name)
        request_row = PreviewRequest(claim, policy.unit, policy.neighbours, name or None)
        preview = await service.preview(view.dataset, request_row)
    except RequestInvalid as error:
        named = error.field in form.values or error.field in {"times", "analyst"}
        field = error.field if named else ""
        value = f", not {error.value}" if error.value else ""
        said = f"{error.rule[0].upper()}{error.rule[1:]}{value}."
        return form._replace(errors={field or form.first: said})
    if preview is None:
        return form
    # It compares filters, which takes a tenth of a second.
    other = await asyncio.to_thread(other_filter_words, preview, policy, claim)
    command = f"accountant ask {view.dataset} {shlex.quote(text)} --analyst {name or 'NAME'}"
    result = _preview_result(text, preview, found, other, claim)
    return form._replace(result=result._replace(command=command))


async def preview_question(
    service: LedgerService, found: PageData, form: QuestionForm, request_id: str
) -> QuestionForm:
    """Return the form of a question with the decision that it would get, and what asks it.

    Args:
        request_id: of the request that asks it.
    Raises: Unavailable.
    """
    view = found.view
    assert view.schema is not UNSET
    analyst = found.viewer.name or form.values["asker"]
    try:
        question, noise = question_of(form, view.schema)
        if analyst:
            check_name("analyst", analyst)
        asked = PreviewRequest(question=question, noise=noise, analyst=analyst or None)
        preview = await service.preview(view.dataset, asked)
    except RequestInvalid as error:
        field = {"analyst": "asker"}.get(error.field, error.field)
        value = f", not {error.value}" if error.value else ""
        return form._replace(errors={field: f"{capital(error.rule)}{value}."})
    if preview is None:
        return form
    result = _preview_result(question_line(question, noise), preview, found, "", None)
    ask = ask_of(question, noise, request_id, analyst) if preview.granted and analyst else None
    return form._replace(result=result, ask=ask)


def _preview_result(
    claim: str, preview: Preview, found: PageData, other_filter: str, asked: Claim | None
) -> PreviewResult:
    levels = found.budget.levels if found.budget is not None else found.levels
    cost = (preview.cost if preview.granted else preview.asked) or {}
    budget = found.view.budget
    return PreviewResult(
        claim=shorten(claim),
        granted=preview.granted,
        cost=spent_line(counting_cost(cost, preview.left, budget=budget)),
        left=remaining_line(counting_amounts(preview.left, budget=budget)),
        more=f"{capital(more_words(preview.more))}." if preview.granted else "",
        ends=ending_words(preview),
        refusal=refusal(preview, levels, found.now, found.now, found.current, asked),
        other_filter=other_filter,
        waits=bool(preview.needs_approval),
        # The form takes no guess of the rows, so that what depends on them has no line.
        errors=[error_words(each) for each in preview.expected_errors or () if each.error],
    )


class Viewer(NamedTuple):
    """The person who looks at a page.

    Attributes:
        name: "" without authentication; everybody sees all then, and types a name into forms.
        access: what the viewer may see of the dataset.
        asks: may send requests to the dataset.
        roles: the active ones, sorted.
        sets_members, sets_limits: gets the form. Whoever sets members also pauses and resumes.
        as_administrator: sets members and pauses as an administrator, not as an owner.
    """

    name: str
    access: DatasetAccess
    asks: bool
    roles: tuple[str, ...]
    sets_members: bool
    sets_limits: bool
    as_administrator: bool

    @property
    def is_authenticated(self) -> bool:
        """Whether the viewer is authenticated."""
        return bool(self.name)

    @property
    def own(self) -> str | None:
        """The person whose requests alone the page lists; None for those of others, too."""
        return None if self.reads_others else self.name

    @property
    def team(self) -> str:
        """The team that the viewer leads, "" for none."""
        return "" if self.access.leads is None else self.access.leads.name

    @property
    def leads(self) -> str:
        """The team that the viewer sets as its lead; "" for none, and for those who set all."""
        return "" if self.sets_members else self.team

    def may_change(self, member: Member) -> bool:
        """Tell whether the viewer sets and removes a member."""
        is_led = member.roles == ("analyst",) and member.team == self.leads
        return self.sets_members or (bool(self.leads) and is_led)

    @property
    def reads_others(self) -> bool:
        """Whether a role shows the viewer members, limits and requests of others."""
        return self.access.reads_others


def viewer_of(visibility: Visibility, view: DatasetView, access: DatasetAccess) -> Viewer:
    """Return the viewer of a dataset, which they see with this access."""
    caller = visibility.caller
    if caller is None:
        return Viewer("", access, False, (), True, True, False)
    roles = visibility.roles(view.dataset)
    is_owner = "owner" in roles
    return Viewer(
        name=caller.name,
        access=access,
        asks=visibility.asks(view),
        roles=tuple(sorted(roles)),
        sets_members=is_owner or caller.is_administrator,
        sets_limits=is_owner,
        as_administrator=caller.is_administrator and not is_owner,
    )
