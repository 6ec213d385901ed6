"""From the bytes of an input record to a checked request, or to what is wrong with them.

Whatever the bytes are, the answer is a value or one of two errors; nothing else may escape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec
from msgspec import UNSET, UnsetType

from accountant.claims import CheckedClaim, Claim, check_claim
from accountant.claims.fields import check_grant, check_noise
from accountant.errors import BudgetError, RequestInvalid
from accountant.policy import Policy, check_approve_within, check_open_per_holder, resolve
from accountant.policy.compiled_policy import budget_below, open_plan
from accountant.policy.in_force import BudgetInForce, check_one_amount, policy_under
from accountant.policy.lifetime import check_lifetime
from accountant.policy.spent_before import check_spent_before
from accountant.questions.laws import ACCURACY_FIRST, is_session
from accountant.questions.noise import Noise
from accountant.questions.noise_wanted import check_noise_wanted
from accountant.questions.question import MAX_GROUPED
from accountant.questions.schema import Schema, check_schema
from accountant.questions.statistics import Question
from accountant.questions.stop import check_stop
from accountant.questions.tokens import MAX_TEXT
from accountant.records import AdminRecord, Body, ReservationStep, Reserve, Source
from accountant.records.limit_fields import check_scope
from accountant.records.names import LONGEST_NAME, check_name, is_name
from accountant.records.outcomes import Reason
from accountant.records.parts import MAX_OTHERS
from accountant.records.placement import group_of
from accountant.records.requests import (
    Amend,
    AskMore,
    DeclineAsk,
    MechanismRequest,
    Open,
    PauseMember,
    RecordRelease,
    Remark,
    Renew,
    Resolve,
    ResumeMember,
    SetBudget,
    SetLimit,
    SetMember,
    Settle,
    SpentBefore,
)
from accountant.records.reservation_rows import check_until
from accountant.records.rule_checks import MAX_PURPOSE, check_note, check_rules
from accountant.records.texts import check_texts, may_break_text_rule
from accountant.records.translate import translate
from accountant.strict_json import read_plain
from accountant.times import from_iso, iso, issued_at

MAX_BYTES: Final = 65_536
MAX_RESERVING: Final = 8_192
"""Bytes of a request that reserves: its claim is stored for as long as the reservation is open."""
MAX_NESTED: Final = 16
_CLAIM_RULE: Final = "must be given, or question and noise in its place"
_SESSION_RULE: Final = f"must be given where noise.law is {' or '.join(ACCURACY_FIRST)}"
_NO_SESSION_RULE: Final = (
    f"must be left out of a question unless noise.law is {' or '.join(ACCURACY_FIRST)}"
)

_SPACE: Final = b" \t\r\n"
_NEWLINE: Final = ord("\n")
_RETURN: Final = ord("\r")
_COLON: Final = ord(":")


_DECODERS: Final = {
    "requests": msgspec.json.Decoder(MechanismRequest | ReservationStep).decode,
    "admin": msgspec.json.Decoder(AdminRecord).decode,
}
_REQUEST_KEYS: Final = 8  # without `purpose` and `via`, which may be left out
_STEP_COLONS: Final = 7  # of the six keys that every step has, and of the grant's hash


class Asked(Protocol):
    """A request, or one that is previewed: a claim with its terms, or a question in its place."""

    @property
    def claim(self) -> Claim | UnsetType: ...
    @property
    def unit(self) -> str | UnsetType: ...
    @property
    def neighbours(self) -> str | UnsetType: ...
    @property
    def reserve(self) -> Reserve | UnsetType: ...
    @property
    def question(self) -> Question | UnsetType: ...
    @property
    def noise(self) -> Noise | UnsetType: ...


class Undecodable(BudgetError):
    """The bytes are no JSON object that the log could repeat."""

    def __init__(self, reason: Reason, what: str) -> None:
        self.reason = reason
        super().__init__(what)


class CheckedInput(msgspec.Struct, frozen=True, gc=False):
    """A request whose every field obeys its rule.

    Attributes:
        body: the decoded record.
        caller: the analyst, or the owner.
        issued: the time in its id, milliseconds since 1970.
        claim: of a request with one; None of any other record, and where the ledger derives it.
    """

    body: Body
    caller: str
    issued: int
    claim: CheckedClaim | None


class Input(msgspec.Struct, frozen=True, gc=False):
    """One record of an input, as the journal hands it over.

    Attributes:
        source: requests or admin.
        offset: its place in that input.
        key: the record's key, None if it has none.
        value: the body, None if it has none.
        append_time: when the journal took it in, milliseconds since 1970.
        checked: what `check` has given for this very value, which is canonical then; None where
            it was not checked yet.
    """

    source: Source
    offset: int
    key: bytes | None
    value: bytes | None
    append_time: int
    checked: CheckedInput | None = None


def canonical(value: bytes | None) -> bytes:
    """Return the body without the white space that the log would not keep.

    Raises: Undecodable: nothing there, above 64 KiB, or no UTF-8.
    """
    if not value:
        raise Undecodable(Reason.UNDECODABLE, "the record has no value")
    if len(value) > MAX_BYTES:
        raise Undecodable(
            Reason.OVERSIZE, f"the body must be at most {MAX_BYTES} bytes, got {len(value)}"
        )
    try:
        value.decode()
    except UnicodeDecodeError as error:
        raise Undecodable(Reason.UNDECODABLE, f"the body must be UTF-8: {error.reason}") from None
    value = value.strip(_SPACE)  # first: a line end after it must not change what is within
    if _NEWLINE in value or _RETURN in value:
        # One record stays one line wherever the log is shown or exported.
        try:
            value = msgspec.json.format(value, indent=-1)
        except (msgspec.DecodeError, RecursionError):
            raise Undecodable(Reason.UNDECODABLE, "the body must be JSON") from None
    return value


def check(source: Source, body: bytes) -> CheckedInput:
    """Return the checked request in a canonical body.

    Raises:
        Undecodable: no JSON object, a key twice, or nested too deep.
        RequestInvalid: a field breaks its rule.
    """
    try:
        decoded = _DECODERS[source](body)
        if may_break_text_rule(body):
            check_texts(_parse(body))
        if isinstance(decoded, MechanismRequest):
            return _check_request(decoded, body)
        if isinstance(decoded, ReservationStep):
            return _check_step(decoded, body)
        return _check_admin(decoded, body)
    except RequestInvalid:
        _parse(body)  # a broken rule is reported only where the whole body is JSON
        raise
    except msgspec.ValidationError as error:
        translate(error, _parse(body), Body)
    except (msgspec.DecodeError, RecursionError):
        _parse(body)
        raise Undecodable(Reason.UNDECODABLE, "the body must be a JSON object") from None


def _check_request(request: MechanismRequest, body: bytes) -> CheckedInput:
    if request.claim is UNSET or request.unit is UNSET or request.neighbours is UNSET:
        return _check_question(request, body)
    try:
        claim = check_claim(request.claim)
    except RequestInvalid as error:
        raise error.under("claim") from None
    issued = _check_names(request, "analyst", request.analyst)
    keys = _REQUEST_KEYS + claim.keys
    if request.purpose or b'"purpose":' in body:  # clients write it where it is empty, too
        keys += 1
        check_note("purpose", request.purpose)
    # Each key takes a colon, so as many colons as there are fields leave none for a second
    # key of the same name, nor for a field that may be left out.
    colons = body.count(_COLON)
    if colons != keys:
        keys += _check_more_fields(request, claim, body)
        _check_keys_once(body, keys, request.via, request.analyst, *request.datasets)
    return CheckedInput(request, request.analyst, issued, claim)


def _check_question(request: MechanismRequest, body: bytes) -> CheckedInput:
    """Check a request with a question, but for what the dataset's schema decides."""
    check_question_fields(request)
    issued = _check_names(request, "analyst", request.analyst)
    check_note("purpose", request.purpose)
    if request.via is not UNSET:
        check_name("via", request.via)
    if request.other_datasets is not UNSET:
        rule = "must be left out where question is given"
        raise RequestInvalid("other_datasets", rule, ", ".join(request.other_datasets))
    if request.noise and is_session(request.noise):
        if request.stop is UNSET:
            raise RequestInvalid("stop", _SESSION_RULE, "nothing")
        check_stop(request.stop)
        if len(body) > MAX_RESERVING:
            rule = f"must take less: at most {MAX_RESERVING} bytes with the whole request"
            raise RequestInvalid("question", rule, f"{len(body)} bytes")
    elif request.stop is not UNSET:
        raise RequestInvalid("stop", _NO_SESSION_RULE, "a value")
    _parse(body)
    return CheckedInput(request, request.analyst, issued, None)


def check_question_fields(asked: Asked) -> None:
    """Check that a question is given, with its noise, in place of a claim with its terms.

    Raises: RequestInvalid: naming field, rule and value.
    """
    question, noise = asked.question, asked.noise
    if question is UNSET:
        fields = ("unit", "neighbours") if asked.claim is not UNSET else ("claim",)
        field = next(field for field in fields if getattr(asked, field) is UNSET)
        rule = "must be given" if field != "claim" else _CLAIM_RULE
        raise RequestInvalid(field, rule, "nothing")
    for field in ("claim", "unit", "neighbours"):
        if getattr(asked, field) is not UNSET:
            raise RequestInvalid(field, "must be left out where question is given", "a value")
    if noise is UNSET:
        raise RequestInvalid("noise", "must be given where question is", "nothing")
    check_noise_wanted(noise)
    if asked.reserve is not UNSET:
        check_until(asked.reserve.until)
    if (asked.reserve is not UNSET) is not is_session(noise):
        rule = _SESSION_RULE if is_session(noise) else _NO_SESSION_RULE
        raise RequestInvalid("reserve", rule, "nothing" if is_session(noise) else "a value")
    if len(question.where) > MAX_TEXT:
        rule = f"must be at most {MAX_TEXT} characters"
        raise RequestInvalid("question.where", rule, question.where)
    if len(question.by) > MAX_GROUPED:
        rule = f"must be at most {MAX_GROUPED} columns"
        raise RequestInvalid("question.by", rule, f"{len(question.by)} columns")


def check_no_question(asked: Asked) -> None:
    """Check that no question is given beside a claim.

    Raises: RequestInvalid: naming field, rule and value.
    """
    for field in ("question", "noise"):
        if getattr(asked, field) is not UNSET:
            raise RequestInvalid(field, "must be left out where claim is given", "a value")


def _check_more_fields(request: MechanismRequest, claim: CheckedClaim, body: bytes) -> int:
    """Check the fields that most requests leave out, and return how many keys they take."""
    keys = 0
    check_no_question(request)
    if request.stop is not UNSET:
        raise RequestInvalid("stop", "must be left out where claim is given", "a value")
    if request.via is not UNSET:
        keys += 1
        check_name("via", request.via)
    if request.reserve is not UNSET:
        keys += 2
        check_until(request.reserve.until)
        if any(each.continues is UNSET for each in claim.refinements):
            rule = "must name the grant that it continues, where a reservation has `previous`"
            raise RequestInvalid("claim.continues", rule, None)
        if len(body) > MAX_RESERVING:
            rule = f"must be left out of a request of more than {MAX_RESERVING} bytes"
            raise RequestInvalid("reserve", rule, f"{len(body)} bytes")
    if request.other_datasets is not UNSET:
        keys += 1
        _check_others(request, request.other_datasets)
    return keys


def _check_others(request: MechanismRequest, others: tuple[str, ...]) -> None:
    for i, name in enumerate(others):
        check_name(f"other_datasets[{i}]", name)
    if not others or len(others) > MAX_OTHERS or len(set(request.datasets)) <= len(others):
        rule = f"must be 1 to {MAX_OTHERS} datasets, each once, without the one in dataset"
        raise RequestInvalid("other_datasets", rule, ", ".join(others))


def _check_keys_once(body: bytes, colons: int, via: str | UnsetType, *names: str) -> None:
    """Check that no key is there twice: its colon would be one more than keys and names take.

    Args:
        colons: how many the keys take.
    """
    found = body.count(_COLON)
    if found == colons:
        return
    colons += sum(name.count(":") for name in (via or "", *names))
    # Where other text has colons too, or escapes hide some, the slow parser decides.
    if b"\\" in body or found != colons:
        _parse(body)


def _check_step(step: ReservationStep, body: bytes) -> CheckedInput:
    issued = _check_names(step, "analyst", step.analyst)
    check_grant(step.grant, "grant")
    colons = _STEP_COLONS
    if step.via is not UNSET:
        colons += 1
        check_name("via", step.via)
    if isinstance(step, Settle) and step.shown is not UNSET:
        colons += 1
        check_noise(step.shown, "shown")
    _check_keys_once(body, colons, step.via, step.analyst, step.dataset)
    return CheckedInput(step, step.analyst, issued, None)


def _check_admin(record: AdminRecord, body: bytes) -> CheckedInput:
    issued = _check_names(record, "by", record.by)
    check_note("reason", record.reason)
    if isinstance(record, SetLimit):
        check_scope(record)  # first: what a scope cannot have is not worth a look at its values
    check_rules(record)
    check_together = _CHECKS_TOGETHER.get(type(record))
    if check_together is not None:
        check_together(record)
    _parse(body)
    return CheckedInput(record, record.by, issued, None)


def _check_open(record: Open) -> None:
    _check_opening(record, record.dataset)
    if record.lifetime is not UNSET:
        check_lifetime(record.lifetime, resolve(record.policy))
    if record.spent is not UNSET:
        _check_spent(record.spent, record.policy)


def _check_renew(record: Renew) -> None:
    _check_opening(record, record.renewed_as)
    if record.renewed_as == record.dataset:
        rule = "must be another name: the dataset that is renewed keeps its own"
        raise RequestInvalid("renewed_as", rule, record.renewed_as)


def _check_opening(record: Open | Renew, opened: str) -> None:
    _check_policy(record.policy)
    population = record.policy.population or ""
    if group_of(population) not in ("", group_of(opened)):
        rule = f"must have the group of dataset {opened}, what stands before `::`, or none"
        raise RequestInvalid(
            "policy.population", rule, population, hint=lambda: _one_group(opened, population)
        )
    if record.schema is not UNSET:
        _check_schema(record.schema, record.policy)
    if record.budget is not UNSET:
        _check_part_of(record.budget, record.policy)


def _one_group(dataset: str, population: str) -> str:
    """Return which names of a dataset and its population have one group."""
    other = population.partition("::")[2]
    named = f"{group_of(dataset)}::{other}" if group_of(dataset) else other
    return f"name the population {named}, or the dataset {group_of(population)}::..."


def _check_spent(spent: SpentBefore, policy: Policy) -> None:
    _check_words("spent.evidence", spent.evidence)
    if policy.population is not UNSET:
        rule = "must be left out where the policy has a population, whose sum it is not in"
        raise RequestInvalid("spent", rule, policy.population)
    try:
        _check_outside(spent.claim)
        check_spent_before(open_plan(resolve(policy)), spent.claim)
    except RequestInvalid as error:
        raise error.under("spent") from None


def _check_part_of(budget: BudgetInForce, policy: Policy) -> None:
    check_one_amount(budget)
    if policy_under(policy, budget) is None:
        rule = "must be at most that of the policy, which is its ceiling"
        raise RequestInvalid(f"budget.{budget.field}", rule, budget.amount)
    try:
        budget_below(open_plan(resolve(policy)), budget)
    except RequestInvalid as error:
        raise RequestInvalid(f"budget.{budget.field}", error.rule, budget.amount) from None


def _check_budget(record: SetBudget) -> None:
    check_one_amount(record.budget)


def _check_policy(policy: Policy) -> None:
    if policy.population is not UNSET:
        check_name("policy.population", policy.population)
    open_plan(resolve(policy))


def _check_schema(schema: Schema, policy: Policy) -> None:
    try:
        check_schema(schema)
    except RequestInvalid as error:
        raise (error if error.field == "schema" else error.under("schema")) from None
    if schema.neighbours != policy.neighbours:
        rule = f"must be those of the policy, {policy.neighbours}"
        raise RequestInvalid("schema.neighbours", rule, schema.neighbours)


def _check_remark(record: Remark) -> None:
    _check_words("remark", record.remark)


def _check_ask(record: AskMore) -> None:
    _check_words("reason", record.reason)
    given = {
        "role": record.role is not None,
        "part": record.part is not None,
        "budget": record.budget is not UNSET,
    }
    if record.team is not None and record.wants != "limit":
        raise RequestInvalid("team", f"must be left out where wants is {record.wants}", record.team)
    takes = _FIELDS_OF_AN_ASK[record.wants]
    for field in given.keys() - set(takes):
        if given[field]:
            rule = f"must be left out where wants is {record.wants}"
            raise RequestInvalid(field, rule, "a value")
    if sum(given.values()) != 1:
        rule = f"must be given where wants is {record.wants}"
        raise RequestInvalid(takes[0], " or ".join([rule, *takes[1:]]), None)
    if record.budget is not UNSET:
        check_one_amount(record.budget)


_FIELDS_OF_AN_ASK: Final = {"access": ("role",), "limit": ("part", "budget"), "budget": ("budget",)}
"""What an ask names, by what it wants: one of these."""


def _check_decline(record: DeclineAsk) -> None:
    _check_words("reason", record.reason)


def _check_words(field: str, text: str | None) -> None:
    if not text or len(text) > MAX_PURPOSE:
        raise RequestInvalid(field, f"must be 1 to {MAX_PURPOSE} characters", text)


def _check_record(record: RecordRelease) -> None:
    _check_words("evidence", record.evidence)
    issued = issued_at(record.request_id) or 0
    if from_iso(record.released_at) > issued:
        rule = f"must not be later than the record, which was made at {iso(issued)}"
        raise RequestInvalid("released_at", rule, record.released_at)
    _check_outside(record.claim)


def _check_outside(claim: Claim) -> None:
    try:
        check_claim(claim)
    except RequestInvalid as error:
        raise error.under("claim") from None


def _check_resolve(record: Resolve) -> None:
    if (record.claim is None) is (record.mistaken is None):
        rule = "must be given, or mistaken with the reason instead, but not both"
        raise RequestInvalid("claim", rule, None)
    if record.claim is not None:
        _check_outside(record.claim)
    else:
        _check_words("mistaken", record.mistaken)


def _check_member(record: SetMember) -> None:
    for field, value in (("team", record.team), ("until", record.until)):
        if value is not None and not record.roles:
            raise RequestInvalid(field, "must be left out where roles is empty", value)
    if record.until is not None and "owner" in record.roles:
        rule = "must be left out where roles has owner: an owner stays until removed"
        raise RequestInvalid("until", rule, record.until)
    if record.team is None and "lead" in record.roles:
        raise RequestInvalid("team", "must be given where roles has lead: the lead's team", None)


def _check_person(record: PauseMember | ResumeMember) -> None:
    if (record.member is None) is (record.team is None):
        rule = "must be given, or team instead, but not both"
        raise RequestInvalid("member", rule, record.member)
    if isinstance(record, PauseMember):
        _check_words("reason", record.reason)


def _check_amend(record: Amend) -> None:
    if record.open_per_holder is not None:
        check_open_per_holder(record.open_per_holder, 0, field="open_per_holder")
    check_approve_within(
        *(record.approve_above or UNSET, record.approve_within or UNSET), field="approve_within"
    )
    if record.policy is not None:
        _check_lower(record)
        _check_policy(record.policy)


def _check_lower(record: Amend) -> None:
    beside = ("alert_at", "horizon", "most_per_request", "access", "visibility")
    for field in (*beside, "open_per_holder", "approve_above", "approve_within"):
        value = getattr(record, field)
        if value is not None:
            raise RequestInvalid(field, "must be left out where policy is given", value)


_CHECKS_TOGETHER: Final[dict[type[AdminRecord], Callable[[Any], None]]] = {
    Open: _check_open,
    Renew: _check_renew,
    Amend: _check_amend,
    SetBudget: _check_budget,
    RecordRelease: _check_record,
    Remark: _check_remark,
    AskMore: _check_ask,
    DeclineAsk: _check_decline,
    Resolve: _check_resolve,
    SetMember: _check_member,
    PauseMember: _check_person,
    ResumeMember: _check_person,
}
"""What the fields of a record must be together, and values that have rules of their own."""


def _check_names(body: Body, caller_field: str, caller: str) -> int:
    issued, dataset = issued_at(body.request_id), body.dataset
    if issued is None:
        rule = "must be a UUID of version 7, lower case"
        raise RequestInvalid("request_id", rule, body.request_id)
    if len(dataset) > LONGEST_NAME or not is_name(dataset):  # as `check_name`, for speed
        check_name("dataset", dataset)
    if len(caller) > LONGEST_NAME or not is_name(caller):
        check_name(caller_field, caller)
    return issued


def _parse(body: bytes) -> object:
    """Return the body as plain values, numbers as their text.

    Raises: Undecodable: it is not JSON, repeats a key, or nests too deep.
    """
    try:
        value = read_plain(body.decode())
    except (ValueError, RecursionError) as error:
        what = "nested too deep" if isinstance(error, RecursionError) else str(error)
        raise Undecodable(Reason.UNDECODABLE, f"the body must be JSON: {what}") from None
    if _nesting_depth(value) > MAX_NESTED:
        rule = f"the body must nest at most {MAX_NESTED} deep"
        raise Undecodable(Reason.UNDECODABLE, rule)
    return value


def _nesting_depth(value: object) -> int:
    level, found = 0, [value]
    while found:
        level += 1
        inner: list[object] = []
        for item in found:
            if isinstance(item, dict):
                inner += item.values()
            elif isinstance(item, list):
                inner += item
        found = inner
    return level


def check_body(source: Source, body: bytes) -> CheckedInput:
    """Return what a body asks for, checked by the very rules of the processor.

    Raises:
        Undecodable: no JSON object, a key twice, too long or nested too deep.
        RequestInvalid: a field breaks its rule.
    """
    return check(source, canonical(body))
