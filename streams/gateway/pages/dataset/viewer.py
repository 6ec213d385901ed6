"""Who looks at a dataset's page: what they see of it, and which forms they get."""

from __future__ import annotations

from typing import NamedTuple

from accountant.views.datasets import DatasetView
from streams.gateway.access.sight import Sight, Standing


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
