"""What each operation does that takes a record: its record's words, and what HTTP adds to them."""

from __future__ import annotations

import inspect
from typing import Final

from accountant.records.kinds import RecordKind
from accountant.records.requests import (
    Begin,
    Body,
    MechanismRequest,
    Open,
    PauseMember,
    RecordRelease,
    SetLimit,
    SetMember,
)

_SIMILAR_TEAM: Final = """
409 `similar_name` for a team that is nearly another one of the dataset: `?new=true` says that it
is meant.
"""
_SIMILAR_PERSON: Final = """
409 `similar_name` for a team, or for a person who is no member, whose name is nearly another one of
the dataset: `?new=true` says that it is meant.
"""
_MORE: Final[dict[type[Body], str]] = {
    MechanismRequest: """
200 with the decision: granted, refused, repeated or expired. 202 with a `Location` if it is
not decided in time: `Prefer: wait=N` seconds, by default 5, at most 30. 202 with the decision
`pending` if it takes so much that an owner must approve it: nothing is charged until then, and
`Location` shows the owner's answer once there is one. A repeat has `granted`
false; `first.outcome` beside it says what was decided at first. With `Prefer:
replay=original` the caller's own repeat is answered with that first decision, marked by
`Preference-Applied` and `Privacy-Replayed: true`. Run no mechanism on a response so marked:
the original may have been received, too.
""",
    Begin: "Its repeat is never answered with the first decision, also with `replay=original`.",
    Open: """
409 where that is probably a slip, and `?new=true` says that it is meant: `similar_name` where
its name, population or source is nearly one that the caller sees, `second_dataset` where
another dataset reads the same source already, and the server's file of sources names no
dataset for it, `ends_joint_guarantee` where its population would have none any more,
`takes_from_lifetime` where it takes from its population's lifetime, and
`source_differs` where its source lacks a column or the unit of its schema, as far as this
server reads the source.
""",
    SetMember: _SIMILAR_TEAM,
    RecordRelease: _SIMILAR_TEAM,
    PauseMember: _SIMILAR_PERSON,
    SetLimit: _SIMILAR_PERSON
    + """
409 `smaller_limit` where it accepts an ask for more with less than the limit in force, or than is
used: `?new=true` says that it is meant.
""",
}
"""What only HTTP does with a kind of record."""


def description_of(kind: RecordKind) -> str:
    """Return the description of the operation that takes a record; its first line is the summary.

    The record's docstring says what it does, and fields follow in their own section.
    """
    words, _, _ = inspect.cleandoc(kind.body.__doc__ or "").partition("\n\nAttributes:")
    return f"{words}\n\n{_MORE.get(kind.body, '').strip()}".strip()
