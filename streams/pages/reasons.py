"""Each reason of a refusal in words: what it means to who was refused, and what to do."""

from __future__ import annotations

from typing import Final

from accountant.limits.wire import LevelNamed
from accountant.records.outcomes import Reason
from streams.pages.words import whose

_WORDS: Final[dict[Reason, tuple[str, str]]] = {
    Reason.UNDECODABLE: ("Unreadable", "It was no JSON object. Mend the program that sends it."),
    Reason.OVERSIZE: ("Too long", "It was longer than 65,536 bytes. Split the batch."),
    Reason.INVALID_FIELD: ("A field breaks its rule", "Mend the field, and take a new id."),
    Reason.WRONG_PARTITION: (
        "On the wrong partition",
        "A program has written it where the dataset is not. Tell who runs this ledger.",
    ),
    Reason.ISSUED_IN_FUTURE: (
        "From the future",
        "Its id is ahead of the ledger's clock. Set the clock of the machine that asks.",
    ),
    Reason.OVERLOADED: (
        "Too many at once",
        "Too many requests came within minutes. Send the same one again in a minute.",
    ),
    Reason.UNKNOWN_DATASET: ("No such dataset", "It was never opened."),
    Reason.ALREADY_OPENED: (
        "Opened before",
        "A budget is never reset. Choose another name.",
    ),
    Reason.NOT_PERMITTED: (
        "Not permitted",
        "Who asked, or the engine between, lacks the role. An owner of the dataset gives roles.",
    ),
    Reason.CLOSED: ("Closed", "The dataset is closed: nothing more is granted."),
    Reason.OUT_OF_DATE: (
        "Out of date",
        "Another decision has come since the one that this follows. Look, then send it anew.",
    ),
    Reason.UNKNOWN_MEMBER: ("No such member", "Nobody of that name is a member here."),
    Reason.LAST_OWNER: (
        "The last owner",
        "The dataset would have no owner. Make somebody else one before.",
    ),
    Reason.TOO_MANY_MEMBERS: (
        "Too many members",
        "A dataset has at most 10,000, those whose time is over among them. Remove some before.",
    ),
    Reason.UNKNOWN_LIMIT: ("No such limit", "There is nothing to lift there."),
    Reason.LIMIT_NOT_POSSIBLE: (
        "The dataset cannot be divided so",
        (
            "A share can be reserved only of a dataset that was opened without basic composition "
            "beside (beside: none), under a filter whose sums add up. Under gdp_residue a limit "
            "needs a budget of its own, such as an epsilon, and there is no pace. Or the part "
            "leaves nothing of some sum."
        ),
    ),
    Reason.OVER_RESERVED: (
        "More than can be reserved",
        (
            "With this share more would be promised than is left, or than the team's share holds. "
            "Reserve less, or lower another share first."
        ),
    ),
    Reason.TOO_MANY_LIMITS: (
        "Too many limits",
        "1,000 are in force. Lift some; a team's default holds for any number of analysts.",
    ),
    Reason.ALREADY_GRANTED: (
        "Something was granted",
        "A whole policy replaces another before the first grant only. Open another dataset.",
    ),
    Reason.HAS_LIMITS: ("Has limits", "Lift the limits, lower the budget, then set them anew."),
    Reason.NOT_LOWER: (
        "Not lower",
        "The new policy is somewhere larger, or of another filter, unit or neighbours.",
    ),
    Reason.HALTED: (
        "Halted",
        "An earlier request did not fit, and the policy lets that be the end.",
    ),
    Reason.UNIT_MISMATCH: (
        "For another unit",
        (
            "The claim is for another unit or other neighbours than the policy's. Derive it for "
            "these; never just rename it."
        ),
    ),
    Reason.CLAIM_NOT_ACCEPTED: (
        "This kind of claim cannot be taken",
        (
            "The filter or the neighbours rule it out, its delta is above all that claims may "
            "spend here, or the batch is too long. Ask for another mechanism, one without a delta, "
            "or for less at a time."
        ),
    ),
    Reason.ABOVE_CAP: (
        "Too much at once",
        "One request may not take so much of the budget. Ask for less.",
    ),
    Reason.EXHAUSTED: (
        "Did not fit",
        "It was more than what is left, of the dataset or at a limit. A smaller request may fit.",
    ),
    Reason.INTERNAL_ERROR: (
        "Our error",
        "Deciding it failed, and nothing was charged. Tell who runs this ledger; take a new id.",
    ),
}
_RUN_OUT: Final = {
    "limit": "The limit of {whose} has no room for it.",
    "pace": "The pace of {whose} has no room for it in this period.",
    "reserved": "The rest of the budget is reserved for others.",
}
OF_THE_DATASET: Final = (
    "It was more than what is left of the dataset's budget. A smaller request may fit."
)
"""What `exhausted` means where no limit has refused it."""
AT_A_LIMIT: Final = "The dataset had room for it, and a limit had not. A smaller request may fit."
"""What it means where one has."""


def title(reason: Reason) -> str:
    """Return a reason in a few words."""
    return _WORDS[reason][0]


def meaning(reason: Reason) -> str:
    """Return what a reason means and what to do, in a sentence or two."""
    return _WORDS[reason][1]


def why(reason: Reason, level: LevelNamed | None) -> str:
    """Return why a request was refused: by which limit, where one has refused it."""
    if level is None:
        return OF_THE_DATASET if reason is Reason.EXHAUSTED else meaning(reason)
    who = whose(level.scope, level.name, inside=True)
    if level.what is None:
        return f"{meaning(reason)} So says the budget of {who}."
    return _RUN_OUT[level.what].format(whose=who)
