"""What a caller is asked back before it is appended: it is probably a slip, and stays for ever.

`decide` would grant it, and no audit would find it afterwards. So servers and clients compare a
record with what is there, and name only what the caller may see.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from msgspec import UNSET

from accountant.likeness import most_alike
from accountant.policy import resolve
from accountant.policy.lifetime import first_generation
from accountant.records.members import Member
from accountant.records.requests import Open, SetLimit, SetMember
from accountant.views.datasets import DatasetView
from accountant.views.joint import JointGuarantee
from accountant.views.limit_views import ScopeView
from accountant.views.opening_refusals import why_outside
from accountant.views.population import Sees, joint_after_opening

Code = Literal["similar_name", "second_dataset", "ends_joint_guarantee", "source_differs"]


class Confirmation(NamedTuple):
    """A question to the sender of a record.

    Attributes:
        code: the kind, as problems of HTTP name it.
        field: of the record. `value`: what it says there.
        similar: the name that was probably meant, "" where there is none.
        text: what would happen, and what to do instead, as sentences.
    """

    code: Code
    field: str
    value: str
    similar: str
    text: str


def confirmations_of_opening(
    record: Open,
    every: Sequence[DatasetView],
    sees: Sees = lambda _: True,
    *,
    ordered: int | None,
    sources_are_listed: bool = False,
) -> list[Confirmation]:
    """Return what to ask before a dataset is opened; nothing of one that is open.

    Args:
        every: all datasets. `sees`: whether the sender sees one; the others are not named.
        ordered: as of `joint_guarantee`, read after `every`.
        sources_are_listed: something else knows which datasets read a source.
    """
    if any(view.dataset == record.dataset for view in every):
        return []  # a repeat, or refused
    views = list(filter(sees, every))
    name, found = record.dataset, list[Confirmation]()
    not_opened = f"dataset {name} was not opened: "
    if similar := most_alike(name, [view.dataset for view in views if not view.closed]):
        what = (
            f"{not_opened}{similar} is open already, and another name is another budget. Open "
            f"{similar} if that is meant."
        )
        found.append(Confirmation("similar_name", "dataset", name, similar, what))
    used = [view for view in views if not view.is_unused]
    population = record.policy.population or ""
    known = [view.policy.population for view in used if view.policy.population]
    if population and (similar := most_alike(population, known)):
        what = (
            f"{not_opened}its population {population} is nearly {similar}, which other datasets "
            f"have, and budgets of two populations are not added up. Name {similar} if that is "
            "meant."
        )
        found.append(Confirmation("similar_name", "policy.population", population, similar, what))
    joint = None
    if population and not why_outside(record, every):
        policy, lifetime = resolve(record.policy), record.lifetime
        joint = joint_after_opening(
            name,
            policy,
            every,
            sees,
            ordered=ordered,
            lifetime=UNSET if lifetime is UNSET else first_generation(lifetime, name, policy),
        )
    if joint is not None and joint[0].holds and not joint[1].holds:
        what = (
            f"{not_opened}the joint guarantee of population {population} would end, for ever: "
            f"{joint[1].why}. {_what_keeps(joint[0], views)}"
        )
        found.append(
            Confirmation("ends_joint_guarantee", "policy.population", population, "", what)
        )
    source = "" if record.schema is UNSET else record.schema.source.name
    readers = {
        view.schema.source.name: view.dataset for view in reversed(used) if view.schema is not UNSET
    }
    if source and (similar := most_alike(source, readers)):
        what = (
            f"{not_opened}its source {source} is nearly {similar}, which other datasets read. "
            f"Name {similar} if that is meant."
        )
        found.append(Confirmation("similar_name", "schema.source.name", source, similar, what))
    elif source and not sources_are_listed and source in readers:
        first = readers[source]
        what = (
            f"{not_opened}{first} reads the source {source} already, and another dataset is "
            f"another budget on the same data. Ask {first} if that is meant. If not, give both one "
            "population."
        )
        found.append(Confirmation("second_dataset", "dataset", name, "", what))
    return found


def _what_keeps(joint: JointGuarantee, seen: Iterable[DatasetView]) -> str:
    """Return what to do instead of an opening that ends a joint guarantee, and what then holds."""
    said = f"the joint guarantee stays ε = {joint.epsilon}, δ = {joint.delta}{joint.with_condition}"
    latest = [
        view.dataset
        for view in seen
        if view.policy.population == joint.population
        and view.lifetime is not UNSET
        and not view.renewed_as
    ]
    renewal = "None of these datasets has a lifetime, so none can be renewed"
    if latest:
        names = " or ".join(latest)
        renewal = f"Or renew {names} (`accountant dataset renew`): {said}"
    return (
        f"Ask on {joint.names} if that serves: {said}. {renewal}. Or name another population if "
        "its people are others: nothing is promised of both together to somebody who is in both."
    )


def source_differs(record: Open, field: str, value: str, why: str) -> Confirmation:
    """Return the question whether a schema is meant that does not match its source.

    Args:
        field: of the record; `value`: what it says there.
        why: what does not match, for the opener.
    """
    what = (
        f"dataset {record.dataset} was not opened: its schema does not match its source, and "
        f"stays as it is. {why}. Correct the schema or the source."
    )
    return Confirmation("source_differs", field, value, "", what)


def confirmations_of_team(
    record: SetMember | SetLimit, members: Iterable[Member], limits: Iterable[ScopeView]
) -> list[Confirmation]:
    """Return what to ask before a team is named that no member and no limit has."""
    team = team_of(record)
    if not team:
        return []
    others = list(members)
    if isinstance(record, SetMember):
        # A member's own team is perhaps the misspelt one, and corrected now.
        others = [each for each in others if each.member != record.member or each.team == team]
    similar = most_alike(team, known_teams(others, limits))
    field = "team" if isinstance(record, SetMember) else "name"
    return [similar_team(record.dataset, team, similar, field)] if similar else []


def similar_team(dataset: str, team: str, similar: str, field: str = "team") -> Confirmation:
    """Return the question whether a team is meant that is nearly another."""
    what = (
        f"nothing was changed: team {team} is nearly team {similar} of dataset {dataset}, and "
        f"limits of one do not hold for the other. Name {similar} if that is meant."
    )
    return Confirmation("similar_name", field, team, similar, what)


def confirmation_words(found: Sequence[Confirmation]) -> str:
    """Return all questions. How to say that the record is meant, each surface says itself."""
    return " ".join(each.text for each in found)


def team_of(record: SetMember | SetLimit) -> str:
    """Return the team that a record gives a member or a limit, "" if none."""
    if isinstance(record, SetMember):
        return (record.team or "") if record.roles else ""
    is_of_team = record.scope in {"team", "each"} and not record.removes
    return (record.name or "") if is_of_team else ""


def known_teams(members: Iterable[Member], limits: Iterable[ScopeView]) -> set[str]:
    """Return the teams that a dataset's members and limits name."""
    teams = {each.name for each in limits if each.scope in {"team", "each"} and each.name}
    return teams | {each.team for each in members if each.team}
