"""What each operation does that takes a record, for the OpenAPI document."""

from __future__ import annotations

from typing import Final

DESCRIPTIONS: Final = {
    "request": """Ask to run one mechanism.

    200 with the decision: granted, refused, repeated or expired. 202 with a `Location` if it is
    not decided in time: `Prefer: wait=N` seconds, by default 5, at most 30. A repeat has `granted`
    false; `first.outcome` beside it says what was decided at first. With `Prefer:
    replay=original` the caller's own repeat is answered with that first decision, marked by
    `Preference-Applied` and `Privacy-Replayed: true`. Run no mechanism on a response so marked:
    the original may have been received, too.
    """,
    "begin": """Begin: the mechanism may read the data once this is answered with outcome `begun`.

    Its repeat is never answered with that first decision, also with `Prefer: replay=original`.
    """,
    "settle": """
    Settle what has begun: a session at the last level it showed, everything else in full.
    """,
    "void": "Void a reservation that never began: exactly what it was charged comes back.",
    "open": """Open a dataset under a policy; its budget is fixed from the first grant on.

    409 where that is probably a slip, and `?new=true` says that it is meant: `similar_name` where
    its name, population or source is nearly one that the caller sees, `second_dataset` where
    another dataset reads the same source already, and the server's file of sources names no
    dataset for it, `ends_joint_guarantee` where its population would have none any more, and
    `source_differs` where its source lacks a column or the unit of its schema, as far as this
    server reads the source.
    """,
    "amend": "Change a dataset's thresholds, horizon or cap; or lower its budget before any grant.",
    "close": "Close a dataset: nothing more is granted.",
    "pause": """Pause a dataset: nothing is granted until it is resumed.

    Only owners may; with `as: administrator`, only administrators.
    """,
    "resume": "Resume a paused dataset: requests are decided again. For those who may pause it.",
    "resolve": """Say what a broken reservation released beyond its maximum. Only owners may.

    With `claim` that is charged; with `mistaken` nothing was. The suspension ends.
    """,
    "member": """
    Set a member's roles on a dataset, replacing their earlier ones; no roles removes them.

    Only owners may; with `as: administrator`, only administrators. 409 `similar_name` for a team
    that is nearly another one of the dataset: `?new=true` says that it is meant.
    """,
    "limit": """
    Set a limit for a scope, replacing its earlier one; a record without limits removes it.

    409 `similar_name` for a team that is nearly another one of the dataset: `?new=true` says that
    it is meant.
    """,
}
"""By the `type` of the record; the first line is the summary."""
