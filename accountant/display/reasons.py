"""Each reason code in words: what it means, and what to do next."""

from __future__ import annotations

from typing import Final, NamedTuple

from accountant.records.outcomes import Reason


class ReasonWords(NamedTuple):
    """A reason for people.

    Attributes:
        title: a few words. `meaning`: a sentence. `remedy`: what to do, a sentence.
    """

    title: str
    meaning: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.meaning} {self.remedy}"


REASONS: Final[dict[Reason, ReasonWords]] = {
    Reason.UNDECODABLE: ReasonWords(
        "Unreadable",
        "The record is no JSON object in UTF-8.",
        "Correct the program that sends it.",
    ),
    Reason.OVERSIZE: ReasonWords(
        "Too long", "The record is longer than 65,536 bytes.", "Split the batch."
    ),
    Reason.INVALID_FIELD: ReasonWords(
        "A field breaks its rule",
        "A field breaks its rule.",
        "Correct the field, and send it under a new id.",
    ),
    Reason.WRONG_PARTITION: ReasonWords(
        "On the wrong partition",
        "The record is not on the partition of its dataset.",
        "Tell the operator of the ledger.",
    ),
    Reason.ISSUED_IN_FUTURE: ReasonWords(
        "From the future",
        "The id's time is ahead of the ledger's clock.",
        "Set the clock of the machine that asks.",
    ),
    Reason.OVERLOADED: ReasonWords(
        "Too many at once",
        "Too many requests came within minutes.",
        "Send the same request again in a minute.",
    ),
    Reason.UNKNOWN_DATASET: ReasonWords(
        "No such dataset",
        "No dataset of that name was ever opened.",
        "List the datasets (`accountant dataset list`) to see their names.",
    ),
    Reason.ALREADY_OPENED: ReasonWords(
        "Opened before",
        "The dataset was opened before, and a budget is never reset.",
        "Choose another name.",
    ),
    Reason.NOT_PERMITTED: ReasonWords(
        "Not permitted",
        "The caller, or the engine between, lacks the role in this dataset.",
        "Ask an owner of the dataset for the role (`accountant member set`).",
    ),
    Reason.CLOSED: ReasonWords(
        "Closed", "The dataset is closed: nothing more is granted.", "Use another dataset."
    ),
    Reason.OUT_OF_DATE: ReasonWords(
        "Out of date",
        "Another decision came after the one that this record follows.",
        "Look at the dataset, then send it under a new id.",
    ),
    Reason.UNKNOWN_MEMBER: ReasonWords(
        "No such member",
        "Nobody of that name is a member of the dataset.",
        "List the members (`accountant member list`) to see their names.",
    ),
    Reason.LAST_OWNER: ReasonWords(
        "The last owner",
        "The dataset would have no owner.",
        "Make somebody else an owner first.",
    ),
    Reason.TOO_MANY_MEMBERS: ReasonWords(
        "Too many members",
        "A dataset has at most 10,000 members, those whose time is over included.",
        "Remove some first.",
    ),
    Reason.UNKNOWN_LIMIT: ReasonWords(
        "No such limit",
        "There is no such limit to lift.",
        "List the limits (`accountant limit list`) to see whom they hold for.",
    ),
    Reason.LIMIT_NOT_POSSIBLE: ReasonWords(
        "The dataset cannot be divided so",
        "A share needs a dataset that was opened without basic composition beside, under a filter "
        "whose sums add up; gdp_residue has neither parts nor paces; and a part must leave "
        "something of every sum.",
        "Give the limit a budget of its own, such as an epsilon.",
    ),
    Reason.OVER_RESERVED: ReasonWords(
        "More than can be reserved",
        "More would be reserved than is left, or than the team's share holds.",
        "Reserve less, or lower another share first.",
    ),
    Reason.TOO_MANY_LIMITS: ReasonWords(
        "Too many limits",
        "A dataset has at most 1,000 limits.",
        "Lift some: a team's default holds for any number of analysts.",
    ),
    Reason.ALREADY_GRANTED: ReasonWords(
        "Something was granted",
        "A whole policy replaces another before the first grant only.",
        "Open another dataset.",
    ),
    Reason.HAS_LIMITS: ReasonWords(
        "Has limits",
        "The dataset has limits, which are parts of its budget.",
        "Lift the limits, lower the budget, then set them again.",
    ),
    Reason.NOT_LOWER: ReasonWords(
        "Not lower",
        "The new policy is somewhere larger, or of another filter, unit or neighbours.",
        "Lower epsilon, rho or delta alone.",
    ),
    Reason.HALTED: ReasonWords(
        "Halted",
        "An earlier request did not fit, and the policy lets that be the end.",
        "Use another dataset.",
    ),
    Reason.UNIT_MISMATCH: ReasonWords(
        "For another unit",
        "The claim is for another unit or other neighbours than the policy's.",
        "Derive it for these (`accountant dataset show` tells them); never just rename it.",
    ),
    Reason.CLAIM_NOT_ACCEPTED: ReasonWords(
        "This kind of claim cannot be taken",
        "The filter or the neighbours rule the claim out, its delta is above all that claims may "
        "spend here, or its batch is too long.",
        "Ask for another mechanism, for one without a delta, or for less at a time.",
    ),
    Reason.ABOVE_CAP: ReasonWords(
        "Too much at once",
        "One request may not take so much of the budget.",
        "Ask for less, or have an owner raise `most_per_request`.",
    ),
    Reason.EXHAUSTED: ReasonWords(
        "Did not fit",
        "The request needs more than is left, of the dataset or at a limit.",
        "Ask for less.",
    ),
    Reason.INTERNAL_ERROR: ReasonWords(
        "Our error",
        "Deciding the request failed, and nothing was charged.",
        "Tell the operator of the ledger, and take a new id.",
    ),
}

REFUSED_AT: Final[dict[str | None, str]] = {
    None: "the dataset's own budget",
    "dataset": "the whole dataset's pace, or what is reserved for others",
    "team": "a team's limit or pace",
    "analyst": "an analyst's own limit or pace",
    "each": "what each analyst of a team may use",
}
"""Where requests were refused that did not fit, by the scope of the limit."""
NO_ROOM: Final = "The dataset's budget has no room."
"""What `exhausted` means where no limit has refused it."""
NO_ROOM_AT_A_LIMIT: Final = "The dataset has room, and a limit has not."
"""What it means where one has."""
