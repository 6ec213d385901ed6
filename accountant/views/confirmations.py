"""What a caller is asked back before it is appended: it is probably a slip, and stays for ever.

`decide` would grant it, and no audit would find it afterwards. So servers and clients compare a
record with what is there, and name only what the caller may see.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

from msgspec import UNSET

from accountant.likeness import most_alike
from accountant.policy import resolve
from accountant.policy.lifetime import first_generation
from accountant.records.members import Member
from accountant.records.requests import Open, PauseMember, RecordRelease, SetLimit, SetMember
from accountant.views.datasets import DatasetView
from accountant.views.joint import JointGuarantee
from accountant.views.limit_views import ScopeView
from accountant.views.opening_refusals import lifetime_of_opening, taking_words, why_outside
from accountant.views.population import Sees, joint_after_opening

Code = Literal[
    "similar_name",
    "second_dataset",
    "ends_joint_guarantee",
    "takes_from_lifetime",
    "source_differs",
    "smaller_limit",
]

OfPeople: TypeAlias = SetMember | SetLimit | PauseMember | RecordRelease
"""The records that name members or teams, and are asked back where a name is misspelt."""


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
    if population and not why_outside(record, every):
        found += _of_population(record, every, sees, ordered=ordered)
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


def _of_population(
    record: Open, every: Sequence[DatasetView], sees: Sees, *, ordered: int | None
) -> Iterator[Confirmation]:
    """Yield what to ask of what an opening does to its population, which does not refuse it."""
    name, policy, lifetime = record.dataset, resolve(record.policy), record.lifetime
    population, field = str(policy.population), "policy.population"
    own = UNSET if lifetime is UNSET else first_generation(lifetime, name, policy)
    joint = joint_after_opening(name, policy, every, sees, ordered=ordered, lifetime=own)
    seen = [view for view in every if view.policy.population == population and sees(view)]
    if joint is not None and joint[0].holds and not joint[1].holds:
        what = (
            f"dataset {name} was not opened: population {population} promises "
            f"{_promise(joint[0])}, and would promise nothing together any more, for ever: "
            f"{joint[1].why}. {_what_keeps(joint[0], seen)}"
        )
        yield Confirmation("ends_joint_guarantee", field, population, "", what)
    taken = lifetime_of_opening(record, every)
    if lifetime is UNSET and taken is not None and seen:
        what = f"dataset {name} was not opened: it {taking_words(taken, policy, seen)}."
        if joint is not None:
            kept = f"keeps its promise, {_promise(joint[0])}"
            lost = f"promises nothing together: {joint[0].why}"
            what = f"{what} Population {population} {kept if joint[0].holds else lost}."
        yield Confirmation("takes_from_lifetime", field, population, "", what)


def _promise(joint: JointGuarantee) -> str:
    return f"ε = {joint.epsilon}, δ = {joint.delta}{joint.with_condition}"


def _what_keeps(joint: JointGuarantee, seen: Sequence[DatasetView]) -> str:
    """Return what to do instead of an opening that ends a joint guarantee, and what then holds."""
    latest = [view.dataset for view in seen if view.lifetime is not UNSET and not view.renewed_as]
    renewal, none = "", " None of these datasets has a lifetime, so none can be renewed."
    if latest:
        none = ""
        renewal = (
            f", or renew {' or '.join(latest)} (`accountant dataset renew`), whose next generation "
            "may have another schema within the same promise"
        )
    return (
        f"To keep that promise, ask on {joint.names} instead{renewal}, or name another population "
        "if its people are others: nothing is then promised of both together to somebody who is in "
        f"both.{none} A lifetime that later datasets take from can be fixed only with a "
        "population's first dataset."
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


def confirmations_of_people(
    record: OfPeople, members: Iterable[Member], limits: Iterable[ScopeView]
) -> list[Confirmation]:
    """Return what to ask before a record names nobody, and nearly a team or a member.

    A new member is not asked about: another name is another person.
    """
    others, person = list(members), person_of(record)
    field = "name" if isinstance(record, SetLimit) else "member" if person else "team"
    if person:
        if isinstance(record, SetLimit) and ("analyst", person) in {
            (each.scope, each.name) for each in limits
        }:
            return []  # it has a limit, which changes
        similar = most_alike(person, [each.member for each in others])
        return [_similar_member(record.dataset, person, similar, field)] if similar else []
    team = team_of(record)
    if not team:
        return []
    if isinstance(record, SetMember):
        # A member's own team is perhaps the misspelt one, and corrected now.
        others = [each for each in others if each.member != record.member or each.team == team]
    similar = most_alike(team, known_teams(others, limits))
    return [similar_team(record.dataset, team, similar, field)] if similar else []


def similar_team(dataset: str, team: str, similar: str, field: str = "team") -> Confirmation:
    """Return the question whether a team is meant that is nearly another."""
    what = (
        f"nothing was changed: team {team} is nearly team {similar} of dataset {dataset}, and "
        f"limits and pauses of one do not hold for the other. Name {similar} if that is meant."
    )
    return Confirmation("similar_name", field, team, similar, what)


def _similar_member(dataset: str, person: str, similar: str, field: str) -> Confirmation:
    what = (
        f"nothing was changed: {person} is no member of dataset {dataset}, and nearly {similar}, "
        f"who is one. Name {similar} if that is meant."
    )
    return Confirmation("similar_name", field, person, similar, what)


def confirmation_words(found: Sequence[Confirmation]) -> str:
    """Return all questions. How to say that the record is meant, each surface says itself."""
    return " ".join(each.text for each in found)


def team_of(record: OfPeople) -> str:
    """Return the team that a record gives a member or a limit, pauses or charges, "" if none."""
    if isinstance(record, RecordRelease | PauseMember):
        return record.team or ""
    if isinstance(record, SetMember):
        return (record.team or "") if record.roles else ""
    is_of_team = record.scope in {"team", "each"} and not record.removes
    return (record.name or "") if is_of_team else ""


def person_of(record: OfPeople) -> str:
    """Return the person that a record limits or pauses, "" if none."""
    if isinstance(record, PauseMember):
        return record.member or ""
    if isinstance(record, SetLimit) and record.scope == "analyst" and not record.removes:
        return record.name or ""
    return ""


def known_teams(members: Iterable[Member], limits: Iterable[ScopeView]) -> set[str]:
    """Return the teams that a dataset's members and limits name."""
    teams = {each.name for each in limits if each.scope in {"team", "each"} and each.name}
    return teams | {each.team for each in members if each.team}
