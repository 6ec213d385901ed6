"""What somebody sees of `Why` who does not see everything."""

from __future__ import annotations

import msgspec

from accountant.views.why.told import AnalystSpending, Why


def without_members(why: Why, name: str) -> Why:
    """Return what is seen by who sees what all have asked, but not who is a member.

    Teams of others are left out, and with them what limits leave others; those of `name` stay.
    """
    team = _team_of(why, name)
    shown = {("all", None), ("team", team), ("analyst", name)}
    return msgspec.structs.replace(
        why,
        by_analyst=tuple(_without_team(row, name) for row in why.by_analyst),
        by_team=tuple(row for row in why.by_team if team and row.team == team),
        forecasts=tuple(each for each in why.forecasts if (each.scope, each.name) in shown),
    )


def own_alone(why: Why, name: str) -> Why:
    """Return what is seen by who sees their own requests alone.

    The dataset's totals are everybody's who sees the dataset; of all else `name`'s alone is left,
    and no sums by purpose, week or reason, which tell how others ask; nor the largest grants, since
    whether one's own are among those tells how large others' are.
    """
    return msgspec.structs.replace(
        why,
        only=name,
        by_analyst=tuple(row for row in why.by_analyst if row.analyst == name),
        by_team=(),
        by_purpose=(),
        by_week=(),
        refusals=(),
        largest=(),
        forecasts=tuple(
            each for each in why.forecasts if each.scope == "analyst" and each.name == name
        ),
    )


def _team_of(why: Why, name: str) -> str | None:
    return next((row.team for row in why.by_analyst if row.analyst == name), None)


def _without_team(row: AnalystSpending, name: str) -> AnalystSpending:
    return row if row.analyst == name else msgspec.structs.replace(row, team=None)
