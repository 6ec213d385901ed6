"""The five analysts' two teams, and how the owner of each dataset divides its budget."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from accountant.records.limit_records import Scope

TEAMS: Final = MappingProxyType({"research": ("ana", "ben", "chloe"), "product": ("dev", "eve")})
"""Who is in which team, the same in every dataset."""
TEAM_OF: Final = MappingProxyType({name: team for team, names in TEAMS.items() for name in names})

PeriodLimit = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """What an owner says of a team, in the words of `AsyncOwner.set_limit`.

    Attributes:
        scope, name: `team`, or `each` for every analyst of the team who has no limit of their own.
        part, pace, reserved: ratios of the dataset's budget; a pace with its period.
    """

    dataset: str
    reason: str
    scope: Scope
    name: str
    part: str | None = None
    pace: PeriodLimit | None = None
    reserved: str | None = None


DIVISIONS: Final = (
    Division(
        dataset="census",
        reason="product looks at it in passing",
        scope="team",
        name="product",
        part="0.25",
    ),
    Division(
        dataset="clinic",
        reason="the pilot's evaluation is due at the end of the week",
        scope="team",
        name="product",
        reserved="0.5",
    ),
    Division(
        dataset="shop",
        reason="nobody uses up what colleagues need",
        scope="each",
        name="research",
        part="0.25",
    ),
    Division(
        # The week takes seconds on the ledger's clock: a pace by the day would see one day of it.
        dataset="shop",
        reason="a quarter's purchases are to last for more than a week",
        scope="team",
        name="product",
        pace=("0.3", "P7D"),
    ),
)
