"""The form that opens a dataset: the policy that it describes, and the record that it makes."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from accountant.advice.choose_filter import mix
from accountant.advice.fit import fit, unspent
from accountant.advice.propose_filter import Proposal, propose_filter
from accountant.claims import Claim, check_claim
from accountant.claims.text import claim_text, parse_claim
from accountant.display.other_filter import proposal_words, proposed_fields
from accountant.errors import RequestInvalid
from accountant.filters import FILTERS
from accountant.policy import Policy
from accountant.policy.compiled_policy import CompiledPolicy, plan_of_opening
from accountant.policy.proposal import propose_defaults
from accountant.questions import Schema
from accountant.records.schema_file import FILL_IN, read_schema_file
from streams.client.requests.admin_requests import AdminRequest, admin_context, open_fields
from streams.clock import Clock
from streams.gateway.submit import DEFAULT_WAIT_S
from streams.pages.dataset.form_data import MOST_TEXT, FormData, percent_ratio, with_error

NAMES: Final = (
    *(
        "dataset",
        "kind",
        "claims",
        "filter",
        "epsilon",
        "rho",
        "delta",
        "unit",
        "ceiling",
        "lifetime",
    ),
    *("lifetime_delta", "lifetime_shared", "population", "access", "approve_above", "owners"),
    *("reason", "by", "new", "schema"),
)
"""The inputs; a query with `dataset` asks for a preview."""
DEFAULTS: Final = {"kind": "mixed", "delta": "1e-6", "unit": "person", "access": "members"}


class RequestKind(NamedTuple):
    """A kind of requests that are expected, in words, and a typical claim; "" for none."""

    name: str
    words: str
    claim: str


KINDS: Final = (
    RequestKind("mixed", "several kinds, or not known yet", ""),
    RequestKind("laplace", "counts, sums and averages with Laplace noise", "pure:0.01"),
    RequestKind("gaussian", "statistics with Gaussian noise", "gaussian:sigma=100,sensitivity=1"),
    RequestKind(
        "training",
        "models trained on samples of the data",
        "96*subsampled_gaussian:sigma=1.1,sensitivity=1,rate=0.03125",
    ),
)
FILTER_NAMES: Final = tuple(name for name in FILTERS if name != "split")
"""Filters that the form can propose; what `split` sets apart is for its owner to name."""
_IN_RHO: Final = "zcdp"
"""The filter of a budget in rho."""
_MOST_CLAIMS: Final = 20


class DraftOpening(NamedTuple):
    """An opening as its form describes it.

    Attributes:
        fields: of its policy, as on the wire, with the defaults.
        plan: the compiled policy; of an opening with a ceiling, below it.
        schema: for questions on data, None without one.
        proposal: why the filter was chosen, in words; "" where nothing was expected.
    """

    fields: dict[str, Any]
    plan: CompiledPolicy
    proposal: str
    schema: Schema | None = None


def draft_of(form: FormData) -> DraftOpening:
    """Return the opening that a form describes. It compares filters: call it in a thread.

    Raises: RequestInvalid: a field breaks a rule.
    """
    value = form.values
    names = ("epsilon", "rho", "delta", "unit", "filter")
    typed = {name: value[name] for name in names if value[name]}
    if not typed.keys() & {"epsilon", "rho"}:
        raise RequestInvalid("epsilon", "must be given, or ρ instead", "")
    if "rho" in typed:
        _check_rho(typed)
    claim, found = _expected(form), None
    if claim is not None and "rho" not in typed:
        found = _proposal(typed, claim)
        chosen: dict[str, Any] = dict(proposed_fields(found))
        if "orders" in chosen:
            chosen["orders"] = chosen["orders"].split(",")
        typed = {**chosen, **typed}
    optional = {
        "population": value["population"] or None,
        "access": "anyone" if value["access"] == "anyone" else "members",
        "approve_above": percent_ratio(value, "approve_above"),
    }
    given = {name: each for name, each in optional.items() if each is not None}
    fields = propose_defaults({**typed, **given})
    policy = msgspec.convert(fields, Policy)
    plan = plan_of_opening(policy, value["ceiling"] or None)
    words = ""
    if claim is not None and found is not None:
        words = proposal_words(found, claim, fit(claim, unspent(plan)).count)
    return DraftOpening(fields, plan, words, _schema(value["schema"]))


def _check_rho(typed: dict[str, str]) -> None:
    """Complete a budget in rho: its filter is zcdp, and it needs no delta.

    Raises: RequestInvalid: another filter, or epsilon, is given as well.
    """
    if "epsilon" in typed:
        raise RequestInvalid("rho", "must be left out where ε is given", typed["rho"])
    if typed.setdefault("filter", _IN_RHO) != _IN_RHO:
        rule = f"must be {_IN_RHO} for a budget in ρ"
        raise RequestInvalid("filter", rule, typed["filter"])
    if typed.get("delta") == DEFAULTS["delta"]:
        del typed["delta"]


def _schema(text: str) -> Schema | None:
    """Return the schema in a form's text, None for none.

    Raises: RequestInvalid: it breaks a rule, which the error names with the column.
    """
    if not text:
        return None
    if len(text) > MOST_TEXT:
        rule = f"must have at most {MOST_TEXT:,} characters here; open it by command"
        raise RequestInvalid("schema", rule, "")
    try:
        return read_schema_file(text.encode())
    except RequestInvalid as error:
        where = "" if error.field == "schema" else f"{error.field} "
        # What is to be filled in says itself what belongs there, at length.
        value = "" if error.value.startswith(FILL_IN) else error.value
        raise RequestInvalid("schema", f"{where}{error.rule}", value) from None


def _expected(form: FormData) -> Claim | None:
    """Return one round of the expected requests, None for none.

    Raises: RequestInvalid: a claim breaks a rule.
    """
    kinds = {each.name: each.claim for each in KINDS}
    texts = form.values["claims"].split("\n") or []
    texts = [each.strip() for each in texts if each.strip()]
    texts = texts or [text for text in (kinds.get(form.values["kind"], ""),) if text]
    if len(texts) > _MOST_CLAIMS:
        raise RequestInvalid("claims", f"must be at most {_MOST_CLAIMS} lines", str(len(texts)))
    try:
        return check_claim(mix(list(map(parse_claim, texts)))).claim if texts else None
    except RequestInvalid as error:
        raise RequestInvalid("claims", error.rule, error.value) from None


def _proposal(typed: dict[str, str], claim: Claim) -> Proposal:
    fixed = {name: typed[name] for name in ("epsilon", "delta", "unit") if name in typed}
    found = propose_filter(msgspec.convert(fixed, Policy), claim, typed.get("filter"))
    if found is None:
        which = f"filter {typed['filter']} grants none" if "filter" in typed else "no filter does"
        rule = f"must be of requests that fit the budget; of {claim_text(claim)} {which}"
        raise RequestInvalid("claims", rule, "")
    return found


def opening_body(form: FormData, draft: DraftOpening, by: str, clock: Clock) -> bytes:
    """Return the record that opens the dataset.

    Raises: RequestInvalid: a field breaks a rule.
    """
    value = form.values
    owners = [name for name in value["owners"].replace(",", " ").split() if name]
    lifetime: dict[str, Any] = {
        "rho" if value["rho"] else "epsilon": value["lifetime"],
        "delta": value["lifetime_delta"] or None,
    }
    lifetime |= {"shared": True} if value["lifetime_shared"] else {}
    if value["lifetime_shared"] and not value["lifetime"]:
        raise RequestInvalid("lifetime", "must be given where it is to be the population's", "")
    fields = open_fields(
        draft.fields,
        as_given=True,
        owners=owners or None,
        schema=draft.schema,
        ceiling=value["ceiling"] or None,
        lifetime=lifetime if value["lifetime"] else None,
    )
    reason, request_id = value["reason"], form.request_id
    who = admin_context(by, reason=reason, request_id=request_id, wait=DEFAULT_WAIT_S)
    return AdminRequest.of("open", value["dataset"], fields, who, clock).prepare().body


def with_opening_error(form: FormData, error: RequestInvalid) -> FormData:
    """Return the form with an error beside its field."""
    field = error.field
    if field.startswith("lifetime"):
        field = "lifetime_delta" if field.endswith("delta") else "lifetime"
    elif field.startswith("owners"):
        field = "owners"
    elif field.startswith("schema"):
        field = "schema"
    return with_error(form, RequestInvalid(field, error.rule, error.value, hint=lambda: error.hint))
