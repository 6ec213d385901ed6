"""Admin requests of owners: each body is made once, so that every retry has the same bytes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, Self, cast
from uuid import UUID

import msgspec
from msgspec import UNSET

from accountant.claims import Claim
from accountant.errors import BudgetError, RequestInvalid
from accountant.exact_numbers import exact_text
from accountant.field_rules import is_text
from accountant.policy import Access, Policy
from accountant.policy.lifetime import Lifetime
from accountant.policy.proposal import differences, propose_defaults
from accountant.questions.schema import Schema
from accountant.records import VERSION, Body, Decision, decode_decision, encode
from accountant.records.coerce import (
    coerce_claim,
    coerce_id,
    coerce_policy,
    coerce_ratios,
    coerce_seconds,
    coerce_text,
    coerce_texts,
    coerce_until,
    optional_text,
)
from accountant.records.inputs import check, check_body
from accountant.records.kinds import KINDS
from accountant.records.outcomes import Reason
from accountant.records.requests import Open
from accountant.records.schema_file import schema_of
from accountant.views.datasets import DatasetView
from streams.client.requests.requests import (
    PLACEHOLDER_NAME,
    PreparedRequest,
    claim_value,
    is_fresh,
    new_id,
)
from streams.clock import Clock

BY_MISSING: Final = (
    'must be passed: your name, as in as_owner("olga"). A token can name you instead'
)
"""The rule that `as_owner` and `as_administrator` break without a name and without a token."""
_PLACEHOLDER_POLICY: Final = {"filter": "basic", "epsilon": "1"}
_RECORDS: Final = {kind.name: kind.body for kind in KINDS if kind.source == "admin"}


@cache
def _texts_of(record: type[Body]) -> frozenset[str]:
    """Return the fields of a record that are texts."""
    return frozenset(
        field.encode_name for field in msgspec.structs.fields(record) if is_text(field.type)
    )


class AdminContext(NamedTuple):
    """Who sends admin requests, and why; and how each is sent.

    Attributes:
        by: None for the name in the client's token.
        request_id: of an earlier attempt, for one request; None makes a new one for each.
        follows: the number (`sequence`) of the dataset's last decision. If there is a later one,
            a request is refused as `out_of_date`.
        wait: seconds.
        as_administrator: act as an administrator, not as an owner.
    """

    by: str | None
    reason: str
    request_id: str | UUID | None
    follows: int | None
    wait: float
    as_administrator: bool

    @property
    def fields(self) -> dict[str, object]:
        """The fields on the wire; None leaves a field out."""
        return {
            "reason": self.reason,
            "follows": self.follows,
            "as": "administrator" if self.as_administrator else None,
        }


def admin_context(
    by: str | None,
    *,
    reason: str,
    request_id: str | UUID | None,
    wait: float,
    follows: int | None = None,
    needs_name: bool = True,
    as_administrator: bool = False,
) -> AdminContext:
    """Return the context of a client's admin requests.

    Args:
        needs_name: no token names the caller.
    Raises: RequestInvalid.
    """
    if by is None and needs_name:
        raise RequestInvalid("by", BY_MISSING, None)
    if request_id is not None:
        coerce_id(request_id)
    return AdminContext(
        optional_text("by", by),
        coerce_text("reason", reason),
        request_id,
        follows,
        coerce_seconds("wait", wait),
        as_administrator,
    )


class AdminRequest(NamedTuple):
    """An admin request; the name of its sender may still be unknown.

    Attributes:
        kind: its `type` on the wire.
        fields: those of the kind; None leaves a field out.
        new: what the caller would be asked back is meant.
    """

    kind: str
    dataset: str
    fields: Mapping[str, object]
    context: AdminContext
    request_id: str
    new: bool = False

    @classmethod
    def of(
        cls,
        kind: str,
        dataset: str,
        fields: Mapping[str, object],
        context: AdminContext,
        clock: Clock,
        *,
        new: bool = False,
    ) -> Self:
        """Return a request with the context's id, or a new one."""
        given = context.request_id
        request_id = new_id(clock) if given is None else coerce_id(given)
        return cls(kind, dataset, fields, context, request_id, new)

    def prepare(self, *, access: Access | None = None) -> PreparedRequest:
        """Return the checked request, with a placeholder where the sender's name is unknown.

        Args:
            access: for the policy of an opening that names none.
        Raises: RequestInvalid.
        """
        given = {**self.fields, **self.context.fields}
        values = {name: value for name, value in given.items() if value is not None}
        record = _RECORDS[self.kind]
        fields = record.__struct_encode_fields__
        for name in _texts_of(record) & values.keys():
            values[name] = coerce_text(name, values[name])
        if access is not None:
            policy = cast("dict[str, Any]", values["policy"])
            values["policy"] = {**policy, "access": policy.get("access", access)}
        for name in values.keys() - set(fields):
            raise RequestInvalid(name, f"must be left out of `{self.kind}`", values[name])
        by = PLACEHOLDER_NAME if self.context.by is None else self.context.by
        head = {"version": VERSION, "type": self.kind, "request_id": self.request_id}
        names = {"dataset": coerce_text("dataset", self.dataset), "by": by}
        ordered = {name: values[name] for name in fields if name in values}
        body = encode({**head, **names, **ordered})
        check_body("admin", body)
        return PreparedRequest(
            "admin",
            body,
            self.dataset,
            by,
            self.request_id,
            opens=self.kind == "open",
            fresh=is_fresh(self.context.request_id),
            new=self.new,
        )


def open_fields(
    policy: Policy | Mapping[str, Any] | None,
    *,
    as_given: bool,
    owners: Sequence[str] | None,
    schema: Schema | Mapping[str, Any] | None,
    ceiling: object = None,
    lifetime: Mapping[str, object] | None = None,
    spent: Mapping[str, Any] | None = None,
) -> dict[str, object]:
    """Return the fields that open a dataset.

    Args:
        policy: None for that of another dataset, which the caller puts in before sending.
        as_given: add no proposed fields to the policy.
        ceiling: the budget of the record's policy; the given one is in force then.
        lifetime: what all generations, or datasets of the population, may promise together; None
            for none.
        spent: what was released before, as on the wire; its claim may be a text.
    Raises: RequestInvalid.
    """
    if not isinstance(schema, Schema | Mapping | None):
        raise RequestInvalid("schema", "must be a Schema, or an object as on the wire", schema)
    if isinstance(schema, Mapping):
        schema = _schema_of(schema)
    if policy is None and ceiling is not None:
        raise RequestInvalid("policy", "must be given where ceiling is", None)
    fields = dict(coerce_policy(_PLACEHOLDER_POLICY if policy is None else policy))
    return {
        **below_ceiling(fields if as_given else propose_defaults(fields), ceiling),
        "owners": None if owners is None else coerce_texts("owners", owners),
        "schema": schema,
        "lifetime": None if lifetime is None else _lifetime_fields(lifetime),
        "spent": None if spent is None else _spent_before(spent),
    }


def _lifetime_fields(lifetime: object) -> dict[str, object]:
    if not isinstance(lifetime, Mapping):
        rule = 'must be amounts by name, such as {"epsilon": "10", "delta": "1e-5"}'
        raise RequestInvalid("lifetime", rule, lifetime)
    if not isinstance(lifetime.get("shared", False), bool):
        raise RequestInvalid("lifetime.shared", "must be true or false", lifetime["shared"])
    for name in lifetime.keys() - set(Lifetime.__struct_fields__):
        rule = f"must be one of {', '.join(Lifetime.__struct_fields__)}"
        raise RequestInvalid(f"lifetime.{name}", rule, lifetime[name])
    return {
        name: value if name == "shared" else coerce_text(f"lifetime.{name}", value)
        for name, value in lifetime.items()
        if value is not None
    }


def renew_fields(
    renewed_as: str,
    policy: Policy | Mapping[str, Any] | None,
    *,
    as_given: bool,
    owners: Sequence[str] | None,
    schema: Schema | Mapping[str, Any] | None,
    ceiling: object,
) -> dict[str, object]:
    """Return the fields that renew a dataset, as `open_fields`.

    Raises: RequestInvalid.
    """
    fields = open_fields(policy, as_given=as_given, owners=owners, schema=schema, ceiling=ceiling)
    del fields["lifetime"], fields["spent"]
    return {**fields, "renewed_as": coerce_text("renewed_as", renewed_as)}


def like(view: DatasetView) -> dict[str, object]:
    """Return policy, schema and budget in force of an opening like that of another dataset."""
    in_force = view.in_force
    budget = None if in_force is UNSET else {in_force.field: in_force.amount}
    schema = None if view.schema is UNSET else view.schema
    return {"policy": view.policy, "schema": schema, "budget": budget}


def _spent_before(spent: object) -> dict[str, Any]:
    if not isinstance(spent, Mapping):
        raise RequestInvalid("spent", "must be an object with claim and evidence", spent)
    if "claim" not in spent:
        raise RequestInvalid("spent.claim", "must be given", None)
    return {**spent, "claim": claim_value(coerce_claim(spent["claim"]))}


def below_ceiling(policy: Mapping[str, Any], ceiling: object) -> dict[str, object]:
    """Return the fields `policy` and `budget` of an opening.

    Args:
        policy: its budget is in force.
        ceiling: in the policy's epsilon, or rho; None for none.
    Raises: RequestInvalid.
    """
    if ceiling is None:
        return {"policy": policy}
    field = "rho" if policy.get("epsilon") is None else "epsilon"
    budget = policy.get(field)
    if budget is None:
        raise RequestInvalid("policy.epsilon", "must be given, or rho, where ceiling is", None)
    return {
        "policy": {**policy, field: coerce_text("ceiling", ceiling)},
        "budget": {field: budget},
    }


def budget_fields(epsilon: object, rho: object) -> dict[str, object]:
    """Return the fields that set the budget in force.

    Raises: RequestInvalid.
    """
    given = {"epsilon": epsilon, "rho": rho}
    amounts = {name: coerce_text(name, it) for name, it in given.items() if it is not None}
    return {"budget": amounts}


def ask_fields(
    wants: str, role: str | None, part: object, epsilon: object, rho: object, team: str | None
) -> dict[str, object]:
    """Return the fields of an ask for more.

    Raises: RequestInvalid.
    """
    given = budget_fields(epsilon, rho)["budget"] or None
    named = {"wants": wants, "role": role, "team": team}
    return {**named, "part": _ratio("part", part), "budget": given}


def _schema_of(fields: Mapping[str, Any]) -> Schema:
    try:
        return schema_of(msgspec.to_builtins(dict(fields)))
    except TypeError as error:
        raise RequestInvalid("schema", "must be of values that JSON has", str(error)) from None
    except RequestInvalid as error:
        raise (error if error.field == "schema" else error.under("schema")) from None


def amend_fields(
    *,
    alert_at: Sequence[object] | None,
    horizon: str | None,
    most_per_request: object,
    policy: Policy | Mapping[str, Any] | None,
    as_given: bool,
    access: str | None,
    visibility: str | None,
    open_per_holder: int | None,
    approve_above: object,
    approve_within: str | None,
) -> dict[str, object]:
    """Return the fields that amend a dataset, as of `Amend`.

    Raises: RequestInvalid: also if all are None.
    """
    lower = None if policy is None else coerce_policy(policy)
    fields: dict[str, object] = {
        "alert_at": None if alert_at is None else coerce_ratios(alert_at),
        "horizon": horizon,
        "most_per_request": _ratio("most_per_request", most_per_request),
        "access": access,
        "visibility": visibility,
        "open_per_holder": open_per_holder,
        "approve_above": _ratio("approve_above", approve_above),
        "approve_within": approve_within,
        "policy": lower if lower is None or as_given else propose_defaults(lower),
    }
    if all(each is None for each in fields.values()):
        first, *others, last = fields
        raise RequestInvalid(first, f"must be passed, or {', '.join(others)} or {last}", None)
    return fields


def member_fields(
    member: str, *, roles: Sequence[str], team: str | None, until: object
) -> dict[str, object]:
    """Return the fields that set the roles of a member.

    Raises: RequestInvalid: also if there are no roles.
    """
    names = coerce_texts("roles", roles)
    if not names:
        rule = "must have a role. To remove the member, call remove_member"
        raise RequestInvalid("roles", rule, roles)
    return {
        "member": member,
        "roles": names,
        "team": team,
        "until": None if until is None else coerce_until(until),
    }


def removed_member_fields(member: str) -> dict[str, object]:
    """Return the fields that remove a member: without roles."""
    return {"member": member, "roles": ()}


def limit_fields(
    scope: str,
    name: str | None,
    *,
    part: object,
    policy: Mapping[str, Any] | None,
    pace: tuple[object, str] | None,
    reserved: object,
    until: object = None,
) -> dict[str, object]:
    """Return the fields that set a limit.

    Raises: RequestInvalid: also if all are None.
    """
    if all(each is None for each in (part, policy, pace, reserved)):
        rule = "must be passed, or policy, pace or reserved. To remove the limit, call remove_limit"
        raise RequestInvalid("part", rule, None)
    return {
        "scope": scope,
        "name": name,
        "part": _ratio("part", part),
        "policy": None if policy is None else coerce_policy(policy),
        "pace": None if pace is None else _period_limit(pace),
        "reserved": _ratio("reserved", reserved),
        "until": None if until is None else coerce_until(until),
    }


def removed_limit_fields(scope: str, name: str | None) -> dict[str, object]:
    """Return the fields that remove a limit: nothing but its scope."""
    return {"scope": scope, "name": name}


def record_fields(
    claim: str | Claim | Mapping[str, Any],
    released_at: object,
    evidence: str,
    team: str | None,
    evidence_hash: str | None,
) -> dict[str, object]:
    """Return the fields that record a release made elsewhere.

    Raises: RequestInvalid.
    """
    return {
        "claim": claim_value(coerce_claim(claim)),
        "released_at": coerce_until(released_at, field="released_at"),
        "evidence": evidence,
        "team": team,
        "evidence_hash": evidence_hash,
    }


def resolve_fields(
    grant: str, claim: str | Claim | Mapping[str, Any] | None, mistaken: str | None
) -> dict[str, object]:
    """Return the fields that end a suspension.

    Raises: RequestInvalid.
    """
    charged = None if claim is None else claim_value(coerce_claim(claim))
    return {"grant": grant, "claim": charged, "mistaken": mistaken}


class PolicyDiffers(BudgetError):
    """The dataset is already open under another policy, which stays as it is.

    Attributes:
        dataset: its name.
        fields: the dataset's value and the requested one, by field.
        record: the refusal, as in the log.
    """

    def __init__(
        self,
        dataset: str,
        fields: dict[str, tuple[str, str]],
        record: bytes,
        *,
        shown: Collection[str] = (),
        budget: str = "",
    ) -> None:
        """Make the error.

        Args:
            shown: the fields that the message names; empty for all.
            budget: of the dataset, such as `epsilon 1`.
        """
        self.dataset = dataset
        self.fields = fields
        self.record = record
        differences_text = "; ".join(
            f"{name}: has {actual}, asked {asked}"
            for name, (actual, asked) in fields.items()
            if not shown or name in shown
        )
        with_budget = f" with {budget}" if budget else ""
        super().__init__(
            f"dataset {dataset} was opened under another policy: {differences_text}. "
            f"A budget is never raised; nothing was changed. Use the open dataset{with_budget}"
        )

    @property
    def decision(self) -> Decision:
        """The refusal."""
        return decode_decision(self.record)


def is_already_open(decision: Decision) -> bool:
    """Whether an opening was refused because the dataset was opened before."""
    differences_text = decision if decision.first is None else decision.first
    return differences_text.reason is Reason.ALREADY_OPENED


def _is_lifetime_of(lifetime: Lifetime, view: DatasetView) -> bool:
    return view.lifetime is not UNSET and all(
        getattr(lifetime, name) == getattr(view.lifetime, name)
        for name in Lifetime.__struct_fields__
    )


def _lifetime_text(lifetime: Lifetime) -> str:
    whose = ", of the population" if lifetime.shared else ""
    return f"{lifetime.field} {lifetime.amount}, delta {lifetime.delta}{whose}"


def check_same_opening(call: PreparedRequest, decision: Decision, view: DatasetView) -> None:
    """Check that a dataset has the policy of a repeated opening, and its schema if it names one.

    Raises: PolicyDiffers.
    """
    record, actual = check("admin", call.body).body, view.policy
    assert isinstance(record, Open)
    fields = differences(actual, record.policy)
    # Fields that were left out follow from the others, such as the odometers.
    shown = [name for name in fields if getattr(record.policy, name) not in (None, UNSET)]
    if record.schema is not UNSET and record.schema != view.schema:
        fields["schema"] = ("none" if view.schema is UNSET else "another one", "this one")
        shown.append("schema")
    if record.lifetime is not UNSET and not _is_lifetime_of(record.lifetime, view):
        has = "none" if view.lifetime is UNSET else _lifetime_text(view.lifetime)
        fields["lifetime"] = (has, _lifetime_text(record.lifetime))
        shown.append("lifetime")
    if fields:
        budget = f"{actual.budget_field} {actual.amount}"
        raise PolicyDiffers(call.dataset, fields, encode(decision), shown=shown, budget=budget)


def _ratio(field: str, value: object) -> str | None:
    return None if value is None else exact_text(value, field=field, up=False)


def _period_limit(value: object) -> dict[str, str | None]:
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise RequestInvalid("pace", 'must be a ratio and its period: ("0.01", "P1D")', value)
    return {"part": _ratio("pace", value[0]), "period": coerce_text("pace.period", value[1])}
