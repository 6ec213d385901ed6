# Generated from _async/owner.py by `make client`: change that file instead.
"""`Owner`, `Administrator`: the calls of those who decide about datasets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

from accountant.claims import Claim
from accountant.policy import Access, Policy, Visibility
from accountant.questions.schema import Schema
from accountant.records import Decision
from streams.client._sync.sender import RequestSender
from streams.client.requests.admin_requests import (
    AdminContext,
    AdminRequest,
    amend_fields,
    budget_fields,
    limit_fields,
    member_fields,
    open_fields,
    removed_limit_fields,
    removed_member_fields,
    resolve_fields,
)
from streams.clock import Clock


class Administrator:
    """An administrator's calls about datasets; `as_administrator` of a client makes it.

    Each call sends one admin request, and returns the decision on it, a refusal included.

    Raises: RequestInvalid: nothing was sent. Unanswered: call again with its `request_id`.
    """

    def __init__(self, sender: RequestSender, context: AdminContext, clock: Clock) -> None:
        self._sender = sender
        self._context = context
        self._clock = clock

    def pause(self, dataset: str) -> Decision:
        """Pause a dataset: it grants nothing until it is resumed.

        Repeated requests, members, limits and amendments are decided as before. A paused dataset
        is refused as `already_paused`.
        """
        return self._send("pause", dataset)

    def resume(self, dataset: str) -> Decision:
        """Resume a paused dataset: its requests are decided again.

        A dataset that is not paused is refused as `not_paused`.
        """
        return self._send("resume", dataset)

    def set_member(
        self,
        dataset: str,
        member: str,
        *,
        roles: Sequence[str],
        team: str | None = None,
        until: str | date | datetime | None = None,
        new: bool = False,
    ) -> Decision:
        """Set the roles of a member on a dataset, replacing the earlier ones.

        Args:
            roles: some of `owner`, `analyst`, `engine`, `auditor`, `curator`.
            team: the member's team on this dataset.
            until: when the membership expires: a day, at its start in UTC, or a time with a
                zone; not for owners.
            new: the team is meant, although it is nearly another one of the dataset.

        Raises: SimilarName: the team is nearly another one, and limits would not hold for it.
        """
        fields = member_fields(member, roles=roles, team=team, until=until)
        return self._send("member", dataset, fields, new=new)

    def remove_member(self, dataset: str, member: str) -> Decision:
        """Remove a member; removing the last owner is refused (`last_owner`)."""
        return self._send("member", dataset, removed_member_fields(member))

    def _send(
        self,
        kind: str,
        dataset: str,
        fields: Mapping[str, object] | None = None,
        *,
        new: bool = False,
    ) -> Decision:
        record = AdminRequest.of(kind, dataset, fields or {}, self._context, self._clock, new=new)
        call = record.prepare()  # wrong fields raise here
        return self._sender.send_record(record, call)


class Owner(Administrator):
    """An owner's calls about datasets, with those of an administrator; `as_owner` makes it."""

    def open(
        self,
        dataset: str,
        policy: Policy | Mapping[str, Any],
        *,
        owners: Sequence[str] | None = None,
        schema: Schema | Mapping[str, Any] | None = None,
        ceiling: object = None,
        as_given: bool = False,
        new: bool = False,
    ) -> Decision:
        """Open a dataset under a policy; the first grant fixes the budget, or its ceiling.

        As with `accountant dataset open`, the policy gets defaults: a request may use at most 0.1
        of the budget (`most_per_request`; "1" means no cap), basic composition counts in addition
        to the filter (`beside`; "none" turns it off), one analyst or engine may have 1,000 open
        reservations (`open_per_holder`; 10,000 means all), and with a token only members may ask
        (`access`). A dataset that is open under this policy stays as it is, so a program can
        start with its opening each time.

        Args:
            policy: such as `{"epsilon": "1", "delta": "1e-6"}`; amounts are decimal strings.
            owners: the owners of the dataset; by default the caller alone. They are not compared
                with those of an open dataset, which `members` of the client shows.
            schema: what questions may name, for ever; without one, no question can be asked.
            ceiling: the most that the budget may ever be raised to, in the policy's epsilon, or
                rho. It is what the dataset guarantees, from the first day.
            as_given: add none of the defaults but `access`.
            new: what is asked back otherwise is meant as it is.

        Raises:
            PolicyDiffers: the dataset is open under another policy, or with another schema.
            SimilarDataset, SimilarName: it is not open, and its name, population or source is
                nearly one that is there: a misspelt one would begin a second budget.
            SecondDataset: it is not open, and another one reads the source of `schema`: a second
                budget on the same data. With authentication the server decides.
            EndsJointGuarantee: it is not open, and its population would have no joint guarantee
                any more, such as after a grant on another dataset.
            SourceDiffers: it is not open, and its schema does not match its source, as far as the
                server reads that.
        """
        fields = open_fields(
            policy, as_given=as_given, owners=owners, schema=schema, ceiling=ceiling
        )
        return self._send("open", dataset, fields, new=new)

    def amend(
        self,
        dataset: str,
        *,
        alert_at: Sequence[object] | None = None,
        horizon: str | None = None,
        most_per_request: object = None,
        policy: Policy | Mapping[str, Any] | None = None,
        as_given: bool = False,
        access: Access | None = None,
        visibility: Visibility | None = None,
        open_per_holder: int | None = None,
    ) -> Decision:
        """Change thresholds, horizon, cap or access; before any grant, also lower the budget.

        Args:
            alert_at: ratios of the budget, increasing, such as `["0.5", "0.9"]`; None
                changes nothing, here and in the others.
            horizon: how long the budget is to last, such as `P365D`.
            most_per_request: the largest ratio of the budget for one request.
            access: `members` may ask, or `anyone`.
            visibility: an analyst sees `own` decisions, or those of all `members`.
            open_per_holder: the most open reservations of one analyst or engine; 0: no limit.
            policy: the whole policy with a lower budget, and no other argument; refused after
                the first grant. It gets the defaults of `open`.
            as_given: add no defaults.
        """
        fields = amend_fields(
            alert_at=alert_at,
            horizon=horizon,
            most_per_request=most_per_request,
            policy=policy,
            as_given=as_given,
            access=access,
            visibility=visibility,
            open_per_holder=open_per_holder,
        )
        return self._send("amend", dataset, fields)

    def close(self, dataset: str) -> Decision:
        """Close a dataset: it grants nothing more."""
        return self._send("close", dataset)

    def set_budget(self, dataset: str, *, epsilon: object = None, rho: object = None) -> Decision:
        """Set the budget in force, at most the ceiling of the opening; it stays the guarantee.

        A raise lets more requests in. A smaller budget stops grants, and promises nothing less.

        Args:
            epsilon, rho: a decimal string; the one that the policy has.
        """
        return self._send("budget", dataset, budget_fields(epsilon, rho))

    def label(self, dataset: str, text: str) -> Decision:
        """Say in a public text what a dataset is; an empty text removes it.

        Everybody who may see the dataset sees it. A closed dataset takes it, too.

        Args:
            text: for people, at most 200 characters; it replaces an earlier one.
        """
        return self._send("label", dataset, {"label": text})

    def remark(self, dataset: str, decision: int, text: str) -> Decision:
        """Say something public about a decision; nothing is charged or returned.

        Everybody who may see the dataset sees the text, for ever. A closed dataset takes it, too.

        Args:
            decision: its number in the dataset, `sequence` of a decision.
            text: for people, 1 to 200 characters; earlier remarks stay beside it.
        """
        return self._send("remark", dataset, {"decision": decision, "remark": text})

    def resolve(
        self,
        dataset: str,
        grant: str,
        *,
        claim: str | Claim | Mapping[str, Any] | None = None,
        mistaken: str | None = None,
    ) -> Decision:
        """End a suspension: say what a reservation released beyond its maximum.

        Args:
            grant: the broken reservation: the hash of its decision `reserved`.
            claim: what was released beyond the maximum; it is charged to the dataset. Or
            mistaken: why nothing was, at most 200 characters; nothing is charged.
        """
        return self._send("resolve", dataset, resolve_fields(grant, claim, mistaken))

    def set_limit(
        self,
        dataset: str,
        scope: str,
        name: str | None = None,
        *,
        part: object = None,
        policy: Mapping[str, Any] | None = None,
        pace: tuple[object, str] | None = None,
        reserved: object = None,
        new: bool = False,
    ) -> Decision:
        """Set a limit on the use of a budget, replacing the earlier one.

        Args:
            scope: `team`, `analyst`, `each` (every analyst of a team without a limit of their
                own) or `dataset`, which allows only a pace.
            name: the team or the analyst.
            part: a ratio of each sum of the dataset's budget.
            policy: instead of `part`, a filter and budget of its own.
            pace: a ratio of the dataset's budget and a period: `("0.01", "P1D")`.
            reserved: a ratio of the dataset's budget that nobody else may use.
            new: the team is meant, although it is nearly another one of the dataset.

        Raises: SimilarName: the team is nearly another one, and the limit would not hold for it.
        Warns: AccountantWarning: no member is in the team, whose name may be misspelt.
        """
        fields = limit_fields(scope, name, part=part, policy=policy, pace=pace, reserved=reserved)
        return self._send("limit", dataset, fields, new=new)

    def remove_limit(self, dataset: str, scope: str, name: str | None = None) -> Decision:
        """Remove a limit with its pace and its reserved share; the usage stays counted.

        Args:
            scope, name: as of `set_limit`.
        """
        return self._send("limit", dataset, removed_limit_fields(scope, name))
