"""What the page of a dataset reads, as far as its reader may see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from accountant.advice.preview import Preview
from accountant.errors import RequestInvalid
from accountant.records.members import Member
from accountant.records.names import check_name
from accountant.records.previews import PreviewRequest
from accountant.times import iso
from accountant.views.datasets import DatasetView
from accountant.views.limit_views import AnalystBudget, LevelView
from accountant.views.why import Why
from streams.auth.visibility import Sight, Standing
from streams.errors import Unavailable
from streams.gateway.why import seen_of as why_seen
from streams.index import Indexed
from streams.pages.asked import NO_REFUSAL, paces_of, refusal
from streams.pages.preview_form import PreviewForm, Told, claim_of, more_words, reason_of
from streams.pages.recent_requests import Latest, latest
from streams.pages.spending import Lasting, Spending, lasting, spending
from streams.pages.usage import Refused, Usage, by_analyst, by_key, refusals
from streams.pages.words import charged, cut, joined
from streams.service import Service

_NO_PURPOSE: Final = "(none given)"


class Used(NamedTuple):
    """Who used a dataset, and how much longer it lasts.

    Attributes:
        over_time, analysts, purposes: None for who does not see what all have asked; the first
            and the last also where the door keeps no index.
        refused: by reason. `lasting`: forecasts, as far as they are seen.
        trouble: why there is nothing, in words; "" where nothing is wrong.
    """

    over_time: Spending | None = None
    analysts: Usage | None = None
    purposes: Usage | None = None
    refused: tuple[Refused, ...] = ()
    lasting: tuple[Lasting, ...] = ()
    trouble: str = ""


class Read(NamedTuple):
    """A dataset and all that belongs to it.

    Attributes:
        members: all for those who see them, else the reader's own.
        levels: all limits for those who see all, else none. `budget`: an analyst's own.
        latest: the last requests of `viewer.own`.
    """

    view: DatasetView
    viewer: Viewer
    members: Sequence[Member]
    levels: Sequence[LevelView]
    budget: AnalystBudget | None
    latest: Latest
    used: Used
    now: int


async def read(sight: Sight, dataset: str, now: int) -> Read | None:
    """Return what somebody sees of a dataset; None alike for nothing, and where there is none.

    Args:
        now: milliseconds since 1970.
    Raises: Unavailable.
    """
    found = await sight.dataset(dataset)
    if found is None:
        return None
    (view,), standing = await sight.with_joint(found[:1]), found[1]
    service = sight.service
    members = await service.members(dataset)
    viewer = viewer_of(sight, view, standing)
    if not standing.sees_all:
        members = [member for member in members if member.member == viewer.name]
    budget = await service.budget_for(dataset, viewer.name) if viewer.asks else None
    return Read(
        view=view,
        viewer=viewer,
        members=members,
        levels=await service.levels(dataset) if standing.sees_all else (),
        budget=budget,
        latest=await _latest(service, view, viewer),
        used=await _used(sight, view, viewer, now),
        now=now,
    )


async def _latest(service: Service, view: DatasetView, viewer: Viewer) -> Latest:
    """Return the last requests; an index that is behind leaves out this part of the page."""
    standing, own = viewer.standing, viewer.own
    try:
        return await latest(service, view.dataset, standing, view.sequence, own=own)
    except Unavailable as error:
        return Latest([], 0, is_whole=False, archived=False, trouble=cut(str(error)))


async def _used(sight: Sight, view: DatasetView, viewer: Viewer, now: int) -> Used:
    """Return who used a dataset; an index that is behind leaves out this part of the page."""
    service, dataset, standing = sight.service, view.dataset, viewer.standing
    try:
        why = await service.why(dataset, analyst=viewer.name if viewer.asks else None)
        told = Used() if why is None else _told_of(why_seen(why, standing), viewer)
        if not standing.sees_requests:
            return told
        told = told._replace(analysts=by_analyst(view, await service.usage(dataset)))
        if not isinstance(service, Indexed):
            return told
        days = await service.usage_by(dataset, "day")
        purposes = by_key(view, await service.usage_by(dataset, "purpose"), unnamed=_NO_PURPOSE)
    except Unavailable as error:
        return Used(trouble=cut(str(error)))
    return told._replace(over_time=spending(view, days, iso(now)[:10]), purposes=purposes)


def _told_of(why: Why, viewer: Viewer) -> Used:
    return Used(refused=refusals(why), lasting=lasting(why, viewer.name))


async def previewed(sight: Sight, found: Read, form: PreviewForm) -> PreviewForm:
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
        told = await sight.service.preview(view.dataset, asked)
    except RequestInvalid as error:
        named = error.field in form.values or error.field in {"times", "analyst"}
        field = error.field if named else ""
        said = f"{error.rule[0].upper()}{error.rule[1:]}, not {error.value or 'nothing'}."
        return form._replace(errors={field or form.first: said})
    return form if told is None else form._replace(told=_told(text, told, found))


def _told(claim: str, preview: Preview, found: Read) -> Told:
    levels = found.budget.levels if found.budget is not None else found.levels
    refused = NO_REFUSAL
    if not preview.granted:
        refused = refusal(
            reason_of(preview.reason),
            preview.level,
            preview.left_at,
            preview.fits,
            paces=paces_of(levels),
            now=found.now,
            decided_at=found.now,
        )
    cost = (preview.cost if preview.granted else preview.asked) or {}
    counted = {name: text for name, text in cost.items() if name in preview.left}
    return Told(
        claim=cut(claim),
        granted=preview.granted,
        cost=charged(counted),
        left=joined(preview.left, up=False),
        more=more_words(preview.more) if preview.granted else "",
        refusal=refused,
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
    standing: Standing
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


def viewer_of(sight: Sight, view: DatasetView, standing: Standing) -> Viewer:
    """Return who looks at a dataset of which something is seen."""
    who = sight.who
    if who is None:
        return Viewer("", standing, False, (), True, True, False)
    roles = sight.roles(view.dataset)
    is_owner = "owner" in roles
    return Viewer(
        name=who.name,
        standing=standing,
        asks=view.policy.access != "members" or "analyst" in roles,
        roles=tuple(sorted(roles)),
        sets_members=is_owner or who.administrator,
        sets_limits=is_owner,
        as_administrator=who.administrator and not is_owner,
    )
