"""Outcomes and reason codes. Both lists only grow, because old logs must stay readable."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

_DECIDED: Final = "is_numbered"
_DONE: Final = (_DECIDED, "is_applied")
_MEMBER: Final = ("sets_members", "sets_one_member", "may_be_administered")
_PERSON_PAUSE: Final = ("pauses_person", "may_be_administered")
_PAUSE: Final = ("switches_pause", "may_be_administered", "is_public")


class Outcome(StrEnum):
    """The outcome of one input record, with what is true of every decision that has it.

    Attributes:
        is_numbered: the decision has a number in its dataset, and its id is remembered.
        is_applied: the input did what it asked for.
        is_refusal: the rules of its dataset refuse the input.
        is_repeat: its `first` says what was decided at first.
        has_no_effect: neither this input nor an earlier one with its id did anything.
        is_not_considered: the input did not reach the rules of its dataset.
        waits: the request waits for an owner's approval.
        answers_request: it answers a request; `refused` also answers other records.
        reserves: it grants a reservation.
        charges: it charges a request.
        allows_run: the mechanism may run now.
        is_step: it is a step of a reservation after its grant.
        ends_reservation: the reservation is closed; a session may stay to be settled again.
        opens: it opens its dataset.
        closes: it closes its dataset.
        sets_policy: it states the dataset's policy and budget.
        sets_members: it changes who the members are.
        sets_one_member: it sets or removes the member that it names.
        sets_limit: it sets or removes a limit.
        may_be_administered: an administrator may have sent the record for the owners.
        pauses_person: it pauses one person or one team of its dataset, or ends their pause.
        switches_pause: it stops the dataset's grants for a time, or lets them continue.
        pauses: it stops grants for a time: of the dataset, or of one person or one team.
        shows_running: the dataset is not paused after it.
        is_public: every reader of the dataset sees it.
        reports_limits: it may report thresholds of limits that nobody's request has reached.
        charges_outside: it may charge what was released without a request.
        charges_team: its levels are those of the team that its record names.
        asks_owners: it asks the dataset's owners for something, and they get an alert.
        by_operator: a command writes it that owns the partition: no input asks for it, and it
            belongs to no dataset.
        resets_clock: it sets the ledger's clock back.
        starts_branch: it states the log's branch from there on.
    """

    _value_: str
    is_numbered: bool
    is_applied: bool
    is_refusal: bool
    is_repeat: bool
    has_no_effect: bool
    is_not_considered: bool
    waits: bool
    answers_request: bool
    reserves: bool
    charges: bool
    allows_run: bool
    is_step: bool
    ends_reservation: bool
    opens: bool
    closes: bool
    sets_policy: bool
    sets_members: bool
    sets_one_member: bool
    sets_limit: bool
    may_be_administered: bool
    pauses_person: bool
    switches_pause: bool
    pauses: bool
    shows_running: bool
    is_public: bool
    reports_limits: bool
    charges_outside: bool
    charges_team: bool
    asks_owners: bool
    by_operator: bool
    resets_clock: bool
    starts_branch: bool

    def __new__(cls, value: str, *facts: str) -> Outcome:
        member = str.__new__(cls, value)
        member._value_ = value
        names = cls.__annotations__.keys() - {"_value_"}
        assert names.issuperset(facts), facts
        # Plain attributes: a property, or a set of outcomes, would be a call at every decision.
        vars(member).update({name: name in facts for name in names})
        return member

    GENESIS = "genesis", "starts_branch"
    OPENED = "opened", *_DONE, "opens", "sets_policy", "sets_members", "is_public"
    AMENDED = "amended", *_DONE, "sets_policy", "is_public", "reports_limits"
    CLOSED = "closed", *_DONE, "closes", "is_public", "shows_running"
    RENEWED = "renewed", *_DONE, "closes", "is_public", "shows_running"
    GRANTED = "granted", *_DONE, "answers_request", "charges", "allows_run", "shows_running"
    REFUSED = "refused", _DECIDED, "is_refusal", "answers_request", "has_no_effect"
    REPEATED = "repeated", "is_repeat"
    CONFLICT = "conflict", "is_not_considered"
    EXPIRED = "expired", "is_not_considered"
    INVALID = "invalid", "is_not_considered", "has_no_effect"
    CLOCK_RESET = "clock_reset", "by_operator", "resets_clock"
    SEALED = "sealed", "by_operator"
    ROLLED_BACK = "rolled_back", "by_operator", "starts_branch"
    KEY_CHANGED = "key_changed", "by_operator"
    MEMBER_SET = "member_set", *_DONE, *_MEMBER
    MEMBER_REMOVED = "member_removed", *_DONE, *_MEMBER
    LIMIT_SET = "limit_set", *_DONE, "sets_limit", "reports_limits"
    LIMIT_REMOVED = "limit_removed", *_DONE, "sets_limit"
    PAUSED = "paused", *_DONE, *_PAUSE, "pauses"
    RESUMED = "resumed", *_DONE, *_PAUSE, "shows_running"
    LABEL_SET = "label_set", *_DONE, "is_public"
    LABEL_REMOVED = "label_removed", *_DONE, "is_public"
    REMARKED = "remarked", *_DONE, "is_public"
    BUDGET_SET = "budget_set", *_DONE, "is_public"
    MORE_ASKED = "more_asked", *_DONE, "asks_owners"
    MORE_DECLINED = "more_declined", *_DONE
    RESERVED = "reserved", *_DONE, "answers_request", "reserves", "charges", "shows_running"
    BEGUN = "begun", *_DONE, "is_step", "allows_run", "shows_running"
    SETTLED = "settled", *_DONE, "is_step", "ends_reservation"
    VOIDED = "voided", *_DONE, "is_step", "ends_reservation"
    RESOLVED = "resolved", *_DONE, "ends_reservation", "charges_outside"
    PENDING = "pending", _DECIDED, "waits", "answers_request", "shows_running"
    RECORDED = "recorded", *_DONE, "charges_outside", "charges_team", "is_public", "reports_limits"
    MEMBER_PAUSED = "member_paused", *_DONE, *_PERSON_PAUSE, "pauses"
    MEMBER_RESUMED = "member_resumed", *_DONE, *_PERSON_PAUSE


class Reason(StrEnum):
    """The reason of an outcome, in the order in which a partition checks them."""

    UNDECODABLE = "undecodable"
    OVERSIZE = "oversize"
    INVALID_FIELD = "invalid_field"
    WRONG_PARTITION = "wrong_partition"
    ISSUED_IN_FUTURE = "issued_in_future"
    OVERLOADED = "overloaded"
    NOT_TOGETHER = "not_together"
    UNKNOWN_DATASET = "unknown_dataset"
    ALREADY_OPENED = "already_opened"
    NOT_PERMITTED = "not_permitted"
    UNKNOWN_ASK = "unknown_ask"
    OTHER_ASK = "other_ask"
    NOT_OPEN = "not_open"
    NOT_FIRST_DATASET = "not_first_dataset"
    ALREADY_BEGUN = "already_begun"
    NOT_BEGUN = "not_begun"
    NOT_BROKEN = "not_broken"
    LAPSED = "lapsed"
    BEYOND_MAXIMUM = "beyond_maximum"
    ABOVE_FIRST = "above_first"
    SETTLES_IN_FULL = "settles_in_full"
    NOT_SETTLED = "not_settled"
    CLOSED = "closed"
    SUSPENDED = "suspended"
    PAUSED = "paused"
    PERSON_PAUSED = "person_paused"
    OUT_OF_DATE = "out_of_date"
    ALREADY_PAUSED = "already_paused"
    NOT_PAUSED = "not_paused"
    HAS_ROLE = "has_role"
    RECORD_NOT_POSSIBLE = "record_not_possible"
    UNKNOWN_DECISION = "unknown_decision"
    UNKNOWN_MEMBER = "unknown_member"
    LAST_OWNER = "last_owner"
    TOO_MANY_MEMBERS = "too_many_members"
    PERSON_ALREADY_PAUSED = "person_already_paused"
    PERSON_NOT_PAUSED = "person_not_paused"
    TOO_MANY_PAUSED = "too_many_paused"
    UNKNOWN_LIMIT = "unknown_limit"
    LIMIT_NOT_POSSIBLE = "limit_not_possible"
    END_IN_PAST = "end_in_past"
    BEYOND_TEAM = "beyond_team"
    OVER_RESERVED = "over_reserved"
    TOO_MANY_LIMITS = "too_many_limits"
    TOO_MANY_ASKS = "too_many_asks"
    ALREADY_GRANTED = "already_granted"
    HAS_LIMITS = "has_limits"
    NOT_LOWER = "not_lower"
    ABOVE_CEILING = "above_ceiling"
    NOT_RENEWABLE = "not_renewable"
    NO_LIFETIME = "no_lifetime"
    ALREADY_RENEWED = "already_renewed"
    NOT_IN_GROUP = "not_in_group"
    LIFETIME_MISMATCH = "lifetime_mismatch"
    BEYOND_LIFETIME = "beyond_lifetime"
    POPULATION_IN_USE = "population_in_use"
    OUTSIDE_LIFETIME = "outside_lifetime"
    NOT_PENDING = "not_pending"
    ALREADY_ANSWERED = "already_answered"
    OWN_REQUEST = "own_request"
    DENIED = "denied"
    HALTED = "halted"
    TOO_MANY_OPEN = "too_many_open"
    TOO_MANY_OF_HOLDER = "too_many_of_holder"
    NO_SCHEMA = "no_schema"
    QUESTION_NOT_ALLOWED = "question_not_allowed"
    UNIT_MISMATCH = "unit_mismatch"
    CLAIM_NOT_ACCEPTED = "claim_not_accepted"
    ABOVE_CAP = "above_cap"
    EXHAUSTED = "exhausted"
    NOT_ALONE = "not_alone"
    NO_APPROVER = "no_approver"
    TOO_MANY_PENDING = "too_many_pending"
    OTHER_DATASET = "other_dataset"
    INTERNAL_ERROR = "internal_error"


_PAUSED_BY_REASON: Final = {
    **dict.fromkeys((Reason.PAUSED, Reason.ALREADY_PAUSED), True),
    **dict.fromkeys(
        (
            *(Reason.CLOSED, Reason.NOT_PAUSED, Reason.PERSON_PAUSED),
            *(Reason.HALTED, Reason.UNIT_MISMATCH),
            *(Reason.TOO_MANY_OPEN, Reason.TOO_MANY_OF_HOLDER),
            *(Reason.NO_SCHEMA, Reason.QUESTION_NOT_ALLOWED),
            *(Reason.CLAIM_NOT_ACCEPTED, Reason.ABOVE_CAP, Reason.EXHAUSTED),
            *(Reason.NOT_ALONE, Reason.NO_APPROVER, Reason.TOO_MANY_PENDING),
        ),
        False,
    ),
}


def paused_by(outcome: Outcome, reason: Reason | None) -> bool | None:
    """Tell whether a decision leaves its dataset paused; None where the decision does not say.

    A reason that is checked after `paused` says that the dataset is not, and closing ends a pause.
    """
    if outcome.shows_running:
        return False
    if outcome is Outcome.PAUSED:
        return True
    return None if reason is None else _PAUSED_BY_REASON.get(reason)
