"""Each reason code for people: what it means, and what to do next."""

from __future__ import annotations

from typing import Final, NamedTuple

from accountant.display.texts import capital
from accountant.records.outcomes import Reason

OWNER: Final = "an owner"
UNNAMED_OWNER: Final = f"{OWNER} (whoever runs the ledger can name them)"
"""An owner whose name the reader may not see."""
ASK_FOR_ROLE: Final = "accountant more ask {dataset} access --role {role} --reason WHY --by {name}"
"""The command that asks owners for a role; the other asks take the same words after `ask`."""


class Subject(NamedTuple):
    """What a refusal is about, in words; by default of no refusal in particular.

    Attributes:
        dataset: as a command takes it. `the_dataset`: as a sentence does.
        owner: which owner to ask. `analyst`: who asked.
        reservation: as a sentence has it. `grant`: as a command takes it.
        most: a larger number of reservations of one holder.
        by: the end of an owner's command where nobody is authenticated: ` --by olga`.
        budget: the option of an amount in the policy's parameter.
    """

    dataset: str = "DATASET"
    the_dataset: str = "the dataset"
    owner: str = OWNER
    analyst: str = "NAME"
    reservation: str = "this reservation"
    grant: str = "GRANT"
    most: str = "1000"
    by: str = ""
    budget: str = "--epsilon AMOUNT"


_ANY: Final = Subject()


class ReasonWords(NamedTuple):
    """A reason for people.

    Attributes:
        title: a few words.
        meaning_form: a sentence. `remedy_form`: what to do. Both have fields of `Subject`.
    """

    title: str
    meaning_form: str
    remedy_form: str

    @property
    def meaning(self) -> str:
        """What the reason means, in a sentence."""
        return self.meaning_of(_ANY)

    @property
    def remedy(self) -> str:
        """What to do, in a sentence."""
        return self.remedy_of(_ANY)

    def meaning_of(self, subject: Subject) -> str:
        """Return what the reason means for a subject."""
        return capital(self.meaning_form.format(**subject._asdict()))

    def remedy_of(self, subject: Subject) -> str:
        """Return what to do about a subject."""
        return self.remedy_form.format(**subject._asdict())

    def __str__(self) -> str:
        return f"{self.meaning} {self.remedy}"


REASONS: Final[dict[Reason, ReasonWords]] = {
    Reason.UNDECODABLE: ReasonWords(
        "Unreadable",
        "The record is not a JSON object in UTF-8.",
        "Correct the program that sends it.",
    ),
    Reason.OVERSIZE: ReasonWords(
        "Too long",
        "The record is longer than 65,536 bytes.",
        "Split the batch into several requests.",
    ),
    Reason.INVALID_FIELD: ReasonWords(
        "Invalid field",
        "A field breaks its rule.",
        "Correct the field and send it under a new id.",
    ),
    Reason.WRONG_PARTITION: ReasonWords(
        "On the wrong partition",
        "The record is on another partition than its dataset.",
        "Have the producer choose partitions by murmur2 of the dataset, or of its group if the "
        "ledger places by group (librdkafka: partitioner=murmur2_random), and send the record "
        "again.",
    ),
    Reason.ISSUED_IN_FUTURE: ReasonWords(
        "From the future",
        "The id's time is ahead of the ledger's clock.",
        "Set the clock of the machine that made the id, and send a new id.",
    ),
    Reason.OVERLOADED: ReasonWords(
        "Too many at once",
        "Too many requests came within a few minutes.",
        "Send the same request again in a minute.",
    ),
    Reason.NOT_TOGETHER: ReasonWords(
        "Not together",
        "The datasets of this request may lie on several partitions, and only one is charged at "
        "once.",
        "Ask on each dataset, and run the mechanism if all of them grant.",
    ),
    Reason.UNKNOWN_DATASET: ReasonWords(
        "No such dataset",
        "No dataset has this name.",
        "List the datasets (`accountant dataset list`) and check the spelling.",
    ),
    Reason.ALREADY_OPENED: ReasonWords(
        "Opened before",
        "A dataset of this name was opened before, and a budget is never reset, or raised above "
        "its ceiling.",
        "Use the open dataset (`accountant dataset show {dataset}`).",
    ),
    Reason.NOT_PERMITTED: ReasonWords(
        "Not permitted",
        "The caller, or the engine that asks for the caller, does not have the role that "
        "this needs in {the_dataset}.",
        "Ask {owner} for the role: `"
        + ASK_FOR_ROLE.replace("{role}", "analyst").replace("{name}", "{analyst}")
        + "`.",
    ),
    Reason.UNKNOWN_ASK: ReasonWords(
        "No such ask",
        "{the_dataset} has no open ask of this number: it was answered, or never made.",
        "List the asks: `accountant more list {dataset}`.",
    ),
    Reason.OTHER_ASK: ReasonWords(
        "Another ask",
        "The ask of this number is another person's, or for something else.",
        "List the asks (`accountant more list {dataset}`), and accept or decline by the number.",
    ),
    Reason.NOT_OPEN: ReasonWords(
        "No such reservation",
        "{the_dataset} has no open reservation of this grant: it was settled or voided, its time "
        "is over, or it never was one.",
        "Run nothing. Reserve again if the mechanism has not run. `accountant reservation list "
        "{dataset}` shows what is open.",
    ),
    Reason.NOT_FIRST_DATASET: ReasonWords(
        "Not the first dataset",
        "{reservation} is over several datasets, and its steps name the first of them.",
        "Send the step again with the first dataset of the request that reserved.",
    ),
    Reason.ALREADY_BEGUN: ReasonWords(
        "Begun before",
        "The mechanism of {reservation} may have read the data, so it can only be settled.",
        "Settle it: `accountant reservation settle {dataset} {grant}`. If another process sent the "
        "`begin`, read its stored answer.",
    ),
    Reason.NOT_BEGUN: ReasonWords(
        "Not begun",
        "The mechanism of {reservation} has not begun, so there is nothing to settle.",
        "Void the reservation (`accountant reservation void {dataset} {grant}`), or begin first.",
    ),
    Reason.NOT_BROKEN: ReasonWords(
        "Not broken",
        "{reservation} was not settled above its maximum.",
        "Nothing needs to be done.",
    ),
    Reason.LAPSED: ReasonWords(
        "Too late",
        "The deadline of {reservation} has passed.",
        "If its mechanism began, the whole maximum stays charged. If not, void it (`accountant "
        "reservation void {dataset} {grant}`) and reserve again.",
    ),
    Reason.BEYOND_MAXIMUM: ReasonWords(
        "Beyond its maximum",
        "The session showed more than {reservation} allows, so its claim was false. Nothing more "
        "is granted on {the_dataset}.",
        "Ask {owner} to say what was released: `accountant dataset resolve {dataset} {grant} "
        "--claim CLAIM{by}`, or `--mistaken WHY` where it was nothing.",
    ),
    Reason.ABOVE_FIRST: ReasonWords(
        "Above the first level",
        "The level is coarser than the first one of the session, so it cannot be the last shown.",
        "Send the last level that was shown, or settle in full without one.",
    ),
    Reason.SETTLES_IN_FULL: ReasonWords(
        "Settles in full",
        "This claim is charged its whole maximum, whatever was shown.",
        "Leave `shown` out.",
    ),
    Reason.NOT_SETTLED: ReasonWords(
        "Not settled",
        "What the claim continues is no session of the analyst's that has settled at `previous` "
        "or below.",
        "Settle it first, and continue it before its deadline. Or claim the whole answer without "
        "`previous`.",
    ),
    Reason.CLOSED: ReasonWords(
        "Closed",
        "{the_dataset} is closed, which is final: it grants nothing more.",
        "Ask on another dataset (`accountant dataset list`), or ask {owner} to open one under "
        "another name.",
    ),
    Reason.SUSPENDED: ReasonWords(
        "Suspended",
        "A reservation released more than its maximum, so {the_dataset} grants nothing.",
        "Ask {owner} to resolve the reservation: `accountant reservation list {dataset}` shows it, "
        "and `accountant dataset resolve {dataset} GRANT --claim CLAIM{by}` or `--mistaken WHY` "
        "ends this.",
    ),
    Reason.PAUSED: ReasonWords(
        "Paused",
        "An owner, or an administrator, has paused {the_dataset}, and it grants nothing for now.",
        "Ask {owner} when it continues, then send a new request.",
    ),
    Reason.PERSON_PAUSED: ReasonWords(
        "Person paused",
        "An owner, or an administrator, has paused this person, or their team, on {the_dataset}.",
        "What is open can still be settled and voided. Ask {owner} when the pause ends, then send "
        "a new request.",
    ),
    Reason.OUT_OF_DATE: ReasonWords(
        "Out of date",
        "{the_dataset} has changed since the decision that this record follows.",
        "Read the dataset again (`accountant dataset show {dataset}`), then send the record under "
        "a new id.",
    ),
    Reason.ALREADY_PAUSED: ReasonWords(
        "Paused before",
        "{the_dataset} is paused already.",
        "Nothing needs to be done.",
    ),
    Reason.NOT_PAUSED: ReasonWords(
        "Not paused",
        "{the_dataset} is not paused, so there is nothing to resume.",
        "Nothing needs to be done.",
    ),
    Reason.HAS_ROLE: ReasonWords(
        "Has the role",
        "Nothing is missing: {analyst} has this role in {the_dataset}, or needs none.",
        "Nothing needs to be done.",
    ),
    Reason.RECORD_NOT_POSSIBLE: ReasonWords(
        "Not under gdp_residue",
        "Under filter gdp_residue its cost depends on all grants that came after the release: "
        "{the_dataset} does not keep them.",
        "Say that it is not covered, or close the dataset. Open the next one with --outside, where "
        "no cost depends on another.",
    ),
    Reason.UNKNOWN_DECISION: ReasonWords(
        "No such decision",
        "{the_dataset} has no earlier decision with this number.",
        "Take the number that stands beside the id where the decision was printed, or `sequence` "
        "from `accountant log export --dataset {dataset}`.",
    ),
    Reason.UNKNOWN_MEMBER: ReasonWords(
        "No such member",
        "{the_dataset} has no member of this name.",
        "List the members (`accountant member list {dataset}`) and check the spelling.",
    ),
    Reason.LAST_OWNER: ReasonWords(
        "The last owner",
        "This would leave the dataset without an owner.",
        "Make somebody else an owner first: `accountant member set {dataset} NAME --role "
        "owner{by}`.",
    ),
    Reason.TOO_MANY_MEMBERS: ReasonWords(
        "Too many members",
        "A dataset has at most 10,000 members, including expired ones.",
        "Remove some first: `accountant member remove {dataset} NAME{by}`.",
    ),
    Reason.PERSON_ALREADY_PAUSED: ReasonWords(
        "Person paused before",
        "The person or the team is paused on {the_dataset} already.",
        "Nothing needs to be done. For another reason, resume them first (`accountant member "
        "resume {dataset} NAME`).",
    ),
    Reason.PERSON_NOT_PAUSED: ReasonWords(
        "Person not paused",
        "The person or the team is not paused on {the_dataset}, so there is nothing to resume.",
        "See who is paused (`accountant member list {dataset}`): it may be their team.",
    ),
    Reason.TOO_MANY_PAUSED: ReasonWords(
        "Too many pauses",
        "{the_dataset} has 100 pauses of persons and teams, which is the maximum.",
        "Pause a team (`accountant member pause {dataset} --team TEAM --reason TEXT`) or the "
        "dataset, or resume somebody.",
    ),
    Reason.UNKNOWN_LIMIT: ReasonWords(
        "No such limit",
        "There is no such limit to remove.",
        "List the limits (`accountant limit list {dataset}`) to see which there are.",
    ),
    Reason.LIMIT_NOT_POSSIBLE: ReasonWords(
        "This limit is not possible here",
        "A dataset opened with `beside: basic`, or under a filter whose sums do not add up, "
        "cannot reserve a share. gdp_residue allows neither parts nor period limits. A part must "
        "leave something of every sum.",
        "Limit the others instead (`accountant limit set {dataset} --team NAME --epsilon "
        "0.1{by}`), or open a dataset that can (`accountant dataset open NAME --epsilon 1 --delta "
        "1e-6 --beside none{by}`).",
    ),
    Reason.END_IN_PAST: ReasonWords(
        "End in the past",
        "The membership or limit would have ended before it was set, by the log's clock.",
        "Name a later end, or remove it (`accountant member remove {dataset} NAME{by}` or "
        "`accountant limit remove {dataset} --team NAME{by}`).",
    ),
    Reason.BEYOND_TEAM: ReasonWords(
        "Beyond the team",
        "A lead stays within the limit, the share and the end of the team's own limit, keeps the "
        "period limit of the team's default, and leaves alone what began outside the team, or is "
        "paused.",
        "Set less, within the team's own (`accountant limit list {dataset}`), with a period limit "
        "where the default has one. Or ask {owner} for a larger limit of the team: `accountant "
        "more ask {dataset} limit --team TEAM --part 0.5 --reason WHY{by}`.",
    ),
    Reason.OVER_RESERVED: ReasonWords(
        "More than can be reserved",
        "This would reserve more than is left, or more than the team's share.",
        "Reserve less, or lower another share first (`accountant limit list {dataset}`).",
    ),
    Reason.TOO_MANY_LIMITS: ReasonWords(
        "Too many limits",
        "A dataset has at most 1,000 limits.",
        "Remove some: one default of a team covers any number of analysts.",
    ),
    Reason.TOO_MANY_ASKS: ReasonWords(
        "Too many open asks",
        "One person has at most 10 open asks in a dataset, and a dataset 500.",
        "Wait until {owner} answers: `accountant more list {dataset}` shows the asks.",
    ),
    Reason.ALREADY_GRANTED: ReasonWords(
        "Something was granted",
        "A whole policy can be replaced only before the first grant.",
        "To grant less from now on, lower the budget in force: `accountant dataset set-budget "
        "{dataset} {budget}{by}`. The guarantee stays. For another policy, open another dataset.",
    ),
    Reason.HAS_LIMITS: ReasonWords(
        "Has limits",
        "{the_dataset} has limits, which are parts of its budget.",
        "Remove the limits (`accountant limit remove {dataset} --team NAME{by}`), lower the "
        "budget, then set the limits again.",
    ),
    Reason.NOT_LOWER: ReasonWords(
        "Not lower",
        "The new policy is larger somewhere, or has another filter, unit or neighbours.",
        "Lower epsilon, rho or delta alone. `accountant dataset show {dataset}` shows the policy.",
    ),
    Reason.ABOVE_CEILING: ReasonWords(
        "Above the ceiling",
        "The budget is above the ceiling that the opening has fixed, is in the other parameter, or "
        "is too small for the filter.",
        "Set a budget up to the ceiling, in the policy's epsilon or rho. For more, renew a "
        "dataset with a lifetime within it, or open a dataset of another name.",
    ),
    Reason.NOT_RENEWABLE: ReasonWords(
        "Never renewable",
        "This ledger has several partitions, and later datasets of the lifetime would lie in "
        "others: it places datasets by their whole names, or the population's name has no group.",
        "Give population and dataset one group, as in `city::people` and `city::visits`. If that "
        "is refused too, this ledger places by whole names: leave the lifetime out, or open the "
        "dataset on another ledger.",
    ),
    Reason.NO_LIFETIME: ReasonWords(
        "No lifetime",
        "{the_dataset} was opened without a lifetime, and none can be added: its generations would "
        "promise nothing together.",
        "Open another dataset.",
    ),
    Reason.ALREADY_RENEWED: ReasonWords(
        "Renewed before",
        "{the_dataset} has a next generation already.",
        "Renew the latest generation.",
    ),
    Reason.NOT_IN_GROUP: ReasonWords(
        "Other group",
        "The next generation must have the group of the one that it renews: what stands before "
        "`::` in its name.",
        "Keep the group.",
    ),
    Reason.LIFETIME_MISMATCH: ReasonWords(
        "Other people",
        "The new policy has another unit, neighbours or population than {the_dataset}, or promises "
        "a rho where the lifetime is an epsilon, or the reverse.",
        "Keep these.",
    ),
    Reason.BEYOND_LIFETIME: ReasonWords(
        "Beyond the lifetime",
        "The lifetime was fixed at the first opening, and the guarantees of all generations with "
        "the new one would be more than it. What a generation did not use does not come back.",
        "Renew with less.",
    ),
    Reason.POPULATION_IN_USE: ReasonWords(
        "Population in use",
        "The population of the policy has datasets already, and its lifetime is fixed with its "
        "first one.",
        "Leave `lifetime` out: the dataset takes from that of the population, if it has one. Or "
        "name another population if its people are others.",
    ),
    Reason.OUTSIDE_LIFETIME: ReasonWords(
        "Outside the population's lifetime",
        "The population of the policy has a lifetime, from which this dataset cannot take: it "
        "guarantees more than remains, or has a lifetime of its own, another unit, neighbours or "
        "kind of guarantee, or its sender owns none of the population's datasets.",
        "Open with less (`--preview` shows what remains), or ask an owner of the population's "
        "datasets to open it for you.",
    ),
    Reason.NOT_PENDING: ReasonWords(
        "Does not wait",
        "{the_dataset} has no request of this hash that waits for an approval.",
        "List those that wait (`accountant approval list {dataset}`).",
    ),
    Reason.ALREADY_ANSWERED: ReasonWords(
        "Answered before",
        "An owner has approved or denied this request.",
        "List those that wait (`accountant approval list {dataset}`).",
    ),
    Reason.OWN_REQUEST: ReasonWords(
        "Your own request",
        "Nobody approves a request of their own.",
        "Ask another owner to approve it.",
    ),
    Reason.DENIED: ReasonWords(
        "Denied",
        "An owner has denied this request, which would have taken more of the budget than a "
        "request may take without approval. Nothing was charged.",
        "Ask for less, or ask {owner} why.",
    ),
    Reason.HALTED: ReasonWords(
        "Halted",
        "An earlier request did not fit, and the policy of {the_dataset} grants nothing after "
        "that.",
        "Ask on another dataset (`accountant dataset list`), or ask {owner} to open one under "
        "another name.",
    ),
    Reason.TOO_MANY_OPEN: ReasonWords(
        "Too many open reservations",
        "A dataset has at most 10,000 open reservations.",
        "Settle or void some first: `accountant reservation list {dataset}` shows them.",
    ),
    Reason.TOO_MANY_OF_HOLDER: ReasonWords(
        "Too many open reservations of one holder",
        "The analyst, or the engine that asks for the analyst, has as many open reservations as "
        "the policy's `open_per_holder` allows.",
        "Settle some, or void what has not begun (`accountant reservation void {dataset} --holder "
        "{analyst}`). Or ask {owner} for more (`accountant dataset amend {dataset} "
        "--open-per-holder {most}{by}`).",
    ),
    Reason.NO_SCHEMA: ReasonWords(
        "Takes no questions",
        "{the_dataset} was opened without a schema, so no claim can be derived from a question.",
        "Ask with a claim (`accountant ask {dataset} pure:0.01`). Or ask {owner} for a dataset "
        "with a schema (`accountant dataset open NAME --epsilon 1 --delta 1e-6 --schema "
        "FILE{by}`).",
    ),
    Reason.QUESTION_NOT_ALLOWED: ReasonWords(
        "Question not allowed",
        "The schema of {the_dataset} does not allow this question, or not with this noise.",
        "Change the question: `accountant dataset show {dataset} --json` has the schema.",
    ),
    Reason.UNIT_MISMATCH: ReasonWords(
        "For another unit",
        "The claim's unit or neighbours differ from the policy's.",
        "Derive the claim for the policy's (`accountant dataset show {dataset}` prints them). "
        "Never just rename them.",
    ),
    Reason.CLAIM_NOT_ACCEPTED: ReasonWords(
        "This kind of claim is not accepted",
        "The filter or the neighbours do not allow this claim, its delta is above all that "
        "claims may spend here, or its batch is too long.",
        "Use another mechanism, one without a delta, or a smaller batch. `accountant dataset show "
        "{dataset}` prints filter and neighbours.",
    ),
    Reason.ABOVE_CAP: ReasonWords(
        "Too much at once",
        "One request may not use so much of the budget.",
        "Ask for less. Or ask {owner} to raise the cap, up to the whole budget: `accountant "
        "dataset amend {dataset} --most-per-request 1{by}`.",
    ),
    Reason.EXHAUSTED: ReasonWords(
        "Did not fit",
        "The request needs more than is left, of the dataset or at a limit.",
        "Ask for less.",
    ),
    Reason.NOT_ALONE: ReasonWords(
        "Needs an approval",
        "The request takes more of {the_dataset} than a request may take without approval, and a "
        "request over several datasets cannot wait for one.",
        "Ask for less, or ask each dataset alone.",
    ),
    Reason.NO_APPROVER: ReasonWords(
        "Nobody can approve it",
        "The request takes more of {the_dataset} than a request may take without approval, and "
        "there is no other owner who could approve it.",
        "Ask for less, or make somebody else an owner: `accountant member set {dataset} NAME "
        "--role owner{by}`.",
    ),
    Reason.TOO_MANY_PENDING: ReasonWords(
        "Too many requests wait",
        "At most 50 requests of one analyst, and 1,000 of a dataset, may wait for an approval.",
        "Ask {owner} to answer some (`accountant approval list {dataset}`), or ask for less.",
    ),
    Reason.OTHER_DATASET: ReasonWords(
        "Refused elsewhere",
        "Another dataset of this request refuses it.",
        "Read the reason of that dataset.",
    ),
    Reason.INTERNAL_ERROR: ReasonWords(
        "Internal error",
        "The decision failed because of a bug, and nothing was charged.",
        "Report it to the operator of the ledger, and send the request under a new id.",
    ),
}

REFUSED_AT: Final[dict[str | None, str]] = {
    None: "the dataset's own budget",
    "dataset": "the dataset's period limit, or what is reserved for others",
    "team": "a team's limit or period limit",
    "analyst": "an analyst's own limit or period limit",
    "each": "the limit of each analyst of a team",
}
"""Where requests were refused that did not fit, by the scope of the limit."""
NO_ROOM: Final = "The dataset's budget has too little left."
"""What `exhausted` means where no limit has refused it."""
NO_ROOM_AT_A_LIMIT: Final = "The dataset's budget has room, but a limit does not."
"""What it means where one has."""
