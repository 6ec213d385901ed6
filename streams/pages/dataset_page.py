"""GET /pages/datasets/{dataset}: all that one sees of a dataset, on one page."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from litestar import Response, get
from litestar.params import FromPath

from accountant.errors import RequestInvalid
from accountant.records import Decision, decode_decision
from accountant.records.header import decode_header
from accountant.records.members import Member
from accountant.records.outcomes import Outcome
from accountant.times import from_iso, issued_at, uuid7
from accountant.views.usage import analyst_in
from accountant.views.visibility import sees_decision
from streams.auth.decision_pages import log_reading
from streams.auth.visibility import caller_of
from streams.http.context import HttpRequest, context_of
from streams.pages import form_data, preview_form
from streams.pages.asked import asked
from streams.pages.bars import levels_of
from streams.pages.flash import Message, message
from streams.pages.form_data import Typed
from streams.pages.headline import headline, mine
from streams.pages.odometers import readings
from streams.pages.page_data import Read, previewed, read
from streams.pages.paths import dataset_page as dataset_address
from streams.pages.render import rendered
from streams.pages.spending import note_of
from streams.service import LedgerService

_MOST_MEMBERS: Final = 200
_MOST_LEVELS: Final = 200


@get("/pages/datasets/{dataset:str}", include_in_schema=False)
async def show_dataset_page(request: HttpRequest, dataset: FromPath[str]) -> Response[Any]:
    """Return the page of a dataset.

    Of the query, `done` is the id of a record that a form has made (`by` says whose, where the
    door knows nobody); `member`, or `scope` and `name`, fill a form with what holds; `kind` and
    what goes with it ask for a preview.
    """
    return await dataset_page(request, dataset)


async def dataset_page(
    request: HttpRequest,
    dataset: str,
    *,
    status: int = 200,
    member: Typed | None = None,
    limit: Typed | None = None,
    flash: Message | None = None,
) -> Response[Any]:
    """Return the page of a dataset, with forms as they were sent where one is to be sent anew.

    Args:
        told: what is told on top.
    """
    context, service = context_of(request), context_of(request).service
    found = await read(service, dataset, caller_of(request), context.clock.now())
    if found is None:
        return missing(request, dataset)
    log_reading(request, dataset, sees_all=found.viewer.standing.sees_all)
    query = {name: str(text) for name, text in request.query_params.items()}
    if flash is None and "done" in query:
        decision = await _decision(service, found, query)
        flash = message(decision)
        member, limit = _refilled(found, decision, member, limit)
    preview = preview_form.typed(query)
    if "kind" in query and status == 200:
        preview = await previewed(service, found, preview)
    values: dict[str, Any] = {
        "member_form": member or _member_form(found, query),
        "limit_form": limit or _limit_form(found, query),
        "preview": preview,
        "message": flash,
    }
    return rendered(request, "dataset/page.html", status=status, **_shown(found), **values)


def missing(request: HttpRequest, dataset: str) -> Response[Any]:
    """Return the page of a dataset that is not there, or not for the one who looks."""
    return rendered(request, "dataset/missing.html", status=404, dataset=dataset[:100])


def new_id(now: int) -> str:
    """Return the id of a record that a form may make."""
    return uuid7(now, os.urandom(10))


def _shown(found: Read) -> dict[str, Any]:
    view, viewer, now = found.view, found.viewer, found.now
    own_levels = () if found.budget is None else found.budget.levels
    sees_all = viewer.standing.sees_all
    return {
        "here": dataset_address(view.dataset),
        "api": f"/datasets/{quote(view.dataset, safe='')}",
        "head": headline(view),
        "viewer": viewer,
        "mine": None if found.budget is None else mine(found.budget, view.state, now),
        "levels": levels_of(found.levels[:_MOST_LEVELS], now),
        "more_levels": max(0, len(found.levels) - _MOST_LEVELS),
        "used": found.used,
        "asked": [asked(each, found.levels or own_levels, now) for each in found.decisions],
        "latest": found.latest,
        "lasting_note": note_of(found.used.lasting),
        "readings": readings(view),
        "members": [_told_member(each, now) for each in found.members[:_MOST_MEMBERS]],
        "more_members": max(0, len(found.members) - _MOST_MEMBERS) if sees_all else 0,
        "filters": form_data.filters(),
    }


def _told_member(member: Member, now: int) -> dict[str, Any]:
    until = member.until
    return {
        "name": member.member,
        "roles": ", ".join(member.roles),
        "team": member.team or "",
        "until": until,
        "is_over": until is not None and from_iso(until) <= now,
    }


async def _decision(
    service: LedgerService, found: Read, query: Mapping[str, str]
) -> Decision | None:
    """Return the decision on the record of a form, None where it is not to be seen yet."""
    caller = found.viewer.name or query.get("by", "")
    request_id = query["done"]
    if issued_at(request_id) is None:
        return None
    value = await service.find(found.view.dataset, caller, request_id)
    if value is None or not sees_decision(found.viewer.standing, decode_header(value)):
        return None
    decision = decode_decision(value)
    # Of a request nothing is told here: the id in the address may be any.
    return decision if analyst_in(decision.request) is None else None


def _refilled(
    found: Read, decision: Decision | None, member: Typed | None, limit: Typed | None
) -> tuple[Typed | None, Typed | None]:
    """Return the forms with what was typed into the one whose record was refused."""
    if decision is None or decision.outcome is not Outcome.REFUSED:
        return member, limit
    viewer, again = found.viewer, new_id(found.now)
    try:
        if viewer.sets_members:
            member = form_data.refilled("member", decision.request, again) or member
        if viewer.sets_limits:
            limit = form_data.refilled("limit", decision.request, again) or limit
    except RequestInvalid:  # no record of a form
        pass
    return member, limit


def _by(found: Read) -> str:
    """Return whose word a form begins with, where a name is typed: the only owner's."""
    owners = [each.member for each in found.members if "owner" in each.roles]
    return owners[0] if not found.viewer.is_known and len(owners) == 1 else ""


def _member_form(found: Read, query: Mapping[str, str]) -> Typed | None:
    if not found.viewer.sets_members:
        return None
    name = query.get("member")
    known = next((each for each in found.members if each.member == name), None)
    return form_data.of_member(new_id(found.now), known, by=_by(found))


def _limit_form(found: Read, query: Mapping[str, str]) -> Typed | None:
    if not found.viewer.sets_limits:
        return None
    wanted = query.get("scope"), query.get("name") or None
    known = next((each for each in found.levels if (each.scope, each.name) == wanted), None)
    return form_data.of_limit(new_id(found.now), known, by=_by(found))
