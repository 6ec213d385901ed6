"""What the page of a dataset reads, as far as its reader may see it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

import msgspec

from accountant.advice.preview import Preview
from accountant.display.datasets import more_words
from accountant.display.numbers import left_line, spent_line
from accountant.display.texts import capital, cut
from accountant.errors import RequestInvalid
from accountant.records import Decision, decode_decision
from accountant.records.http_bodies import logged_decision
from accountant.records.members import Member, Role
from accountant.records.names import check_name
from accountant.records.previews import PreviewRequest
from accountant.times import iso
from accountant.views.datasets import DatasetView
from accountant.views.limit_views import AnalystBudget, LevelView
from accountant.views.overview import Overview, RecentRequests
from accountant.views.visibility import Caller, DatasetAccess
from streams.pages.asked import paces_of, refusal
from streams.pages.preview_form import PreviewForm, PreviewResult, claim_of
from streams.pages.spending import Lasting, SpendingChart, lasting, spending
from streams.pages.usage import RefusalCount, UsageRows, by_key, refusals
from streams.service import LedgerService

_NO_PURPOSE: Final = "(none given)"


class UsageData(NamedTuple):
    """Who used a dataset, and how much longer it lasts.

    Attributes:
        over_time, analysts, purposes: None for who does not see what all have asked.
        refused: by reason. `lasting`: forecasts, as far as they are seen.
        trouble: why there is nothing, in words; "" where nothing is wrong.
    """

    over_time: SpendingChart | None = None
    analysts: UsageRows | None = None
    purposes: UsageRows | None = None
    refused: tuple[RefusalCount, ...] = ()
    lasting: tuple[Lasting, ...] = ()
    trouble: str = ""


class Read(NamedTuple):
    """A dataset and all that belongs to it.

    Attributes:
        members: all for those who see them, else the reader's own.
        levels: all limits for those who see all, else none. `budget`: an analyst's own.
        latest: the last requests of `viewer.own`; `decisions`: these, decoded.
    """

    view: DatasetView
    viewer: Viewer
    members: Sequence[Member]
    levels: Sequence[LevelView]
    budget: AnalystBudget | None
    latest: RecentRequests
    decisions: Sequence[Decision]
    used: UsageData
    now: int


async def read(
    service: LedgerService, dataset: str, caller: Caller | None, now: int
) -> Read | None:
    """Return what a caller sees of a dataset; None alike for nothing, and where there is none.

    Args:
        now: milliseconds since 1970.
    Raises: Unavailable.
    """
    overview = await service.overview(dataset, caller)
    return None if overview is None else page_data(overview, caller, now)


def page_data(overview: Overview, caller: Caller | None, now: int) -> Read:
    """Return the data of a dataset's page from its overview."""
    seen = overview.caller
    access = DatasetAccess(seen.name or "", seen.sees_all, seen.sees_requests)
    viewer = viewer_of(caller, overview.dataset, access, seen.roles)
    latest = overview.requests
    return Read(
        view=overview.dataset,
        viewer=viewer,
        members=overview.members,
        levels=overview.limits,
        budget=overview.budget,
        latest=msgspec.structs.replace(latest, trouble=cut(latest.trouble)),
        decisions=[decode_decision(logged_decision(raw)[0]) for raw in latest.decisions],
        used=_used(overview, viewer, now),
        now=now,
    )


def _used(overview: Overview, viewer: Viewer, now: int) -> UsageData:
    view, why = overview.dataset, overview.why
    if overview.trouble:
        return UsageData(trouble=cut(overview.trouble))
    used = UsageData()
    if why is not None:
        used = UsageData(refused=refusals(why), lasting=lasting(why, viewer.name))
    if overview.analysts is None or overview.days is None or overview.purposes is None:
        return used
    return used._replace(
        over_time=spending(view, overview.days, iso(now)[:10]),
        analysts=by_key(view, overview.analysts),
        purposes=by_key(view, overview.purposes, unnamed=_NO_PURPOSE),
    )


async def previewed(service: LedgerService, found: Read, form: PreviewForm) -> PreviewForm:
    """Return the form of a preview with what the ledger would say of the claim in it.

    Raises: Unavailable.
    """
    view, text = found.view, ""
    policy = view.policy
    try:
        claim, text = claim_of(form)
        name = form.analyst if found.viewer.standing.sees_all else found.viewer.name
        if name:
            check_name("analyst", name)
        asked = PreviewRequest(claim, policy.unit, policy.neighbours, name or None)
        told = await service.preview(view.dataset, asked)
    except RequestInvalid as error:
        named = error.field in form.values or error.field in {"times", "analyst"}
        field = error.field if named else ""
        said = f"{error.rule[0].upper()}{error.rule[1:]}, not {error.value or 'nothing'}."
        return form._replace(errors={field or form.first: said})
    return form if told is None else form._replace(told=_told(text, told, found))


def _told(claim: str, preview: Preview, found: Read) -> PreviewResult:
    levels = found.budget.levels if found.budget is not None else found.levels
    cost = (preview.cost if preview.granted else preview.asked) or {}
    counted = {name: text for name, text in cost.items() if name in preview.left}
    return PreviewResult(
        claim=cut(claim),
        granted=preview.granted,
        cost=spent_line(counted),
        left=left_line(preview.left),
        more=f"{capital(more_words(preview.more))}." if preview.granted else "",
        refusal=refusal(preview, paces_of(levels), found.now, found.now),
    )


class Viewer(NamedTuple):
    """Whoever looks.

    Attributes:
        name: "" where the door knows nobody; everybody sees all then, and types a name.
        standing: what is seen.
        asks: is an analyst here, and may ask.
        roles: in force, in the order of words.
        sets_members, sets_limits: gets the forms.
        as_administrator: sets members as an administrator's help, not as an owner's word.
    """

    name: str
    standing: DatasetAccess
    asks: bool
    roles: tuple[str, ...]
    sets_members: bool
    sets_limits: bool
    as_administrator: bool

    @property
    def is_known(self) -> bool:
        """Whether the door knows who looks."""
        return bool(self.name)

    @property
    def own(self) -> str | None:
        """Whose requests the page lists; None for everybody's."""
        return None if self.standing.sees_all else self.name


def viewer_of(
    caller: Caller | None, view: DatasetView, access: DatasetAccess, roles: Collection[Role]
) -> Viewer:
    """Return who looks at a dataset of which something is seen.

    Args:
        roles: the caller's that are in force.
    """
    if caller is None:
        return Viewer("", access, False, (), True, True, False)
    is_owner = "owner" in roles
    return Viewer(
        name=caller.name,
        standing=access,
        asks=view.policy.access != "members" or "analyst" in roles,
        roles=tuple(sorted(roles)),
        sets_members=is_owner or caller.is_administrator,
        sets_limits=is_owner,
        as_administrator=caller.is_administrator and not is_owner,
    )
