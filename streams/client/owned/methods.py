"""What owners say of a dataset, the same for the client that waits and the one that is awaited."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID

from accountant.errors import RequestInvalid
from accountant.policy import Access, Policy, Visibility
from accountant.records.given import given_id, given_seconds
from streams.client.owned.records import (
    prepare_amend,
    prepare_close,
    prepare_limit,
    prepare_member,
    prepare_open,
)
from streams.client.patience import WAIT_S
from streams.client.requests import SOMEBODY, PreparedRequest, new_id
from streams.clock import Clock

D_co = TypeVar("D_co", covariant=True)
Make = Callable[[str], PreparedRequest]


class MakeOpen(Protocol):
    """Makes the record that opens a dataset."""

    def __call__(self, by: str, /, *, access: Access | None = None) -> PreparedRequest:
        """Return the record of an owner; `access` is where the policy names none."""
        ...


class OwnerMethods(Generic[D_co]):
    """Owners' records; `D_co` is a decision, or what is awaited for one.

    `by` is who says so: with a token, by default whom the door knows the client as. Of a call,
    `follows` is the number of the dataset's decision (`sequence`) that it follows: if another one
    has come since, it is refused as `out_of_date`.
    """

    clock: Clock

    @property
    def shows_token(self) -> bool:
        """Whether there is a door that a token is shown to."""
        raise NotImplementedError

    def said(self, by: str | None, make: Make, wait: float) -> D_co:
        """Send the record that somebody makes; None for whom the door knows the client as."""
        raise NotImplementedError

    def opened(self, by: str | None, make: MakeOpen, wait: float) -> D_co:
        """Send the record that opens a dataset; one that is open under the same policy is left."""
        raise NotImplementedError

    def _said(
        self, by: str | None, request_id: str | UUID | None, wait: float, make: Callable[..., Any]
    ) -> D_co:
        return self.said(by, self._made(by, request_id, make), given_seconds("wait", wait))

    def _made(
        self, by: str | None, request_id: str | UUID | None, make: Callable[..., Any]
    ) -> MakeOpen:
        sent_id = new_id(self.clock) if request_id is None else given_id(request_id)
        fresh = request_id is None

        def made(name: str, /, **more: Any) -> PreparedRequest:
            call: PreparedRequest = make(by=name, request_id=sent_id, **more)
            return call._replace(fresh=fresh)

        if by is None and not self.shows_token:
            raise RequestInvalid("by", "must be given, or a token that the door knows", None)
        made(SOMEBODY if by is None else by)  # a wrong call is told before anything is sent
        return made

    def open(
        self,
        dataset: str,
        policy: Policy | Mapping[str, Any],
        *,
        by: str | None = None,
        owners: Sequence[str] | None = None,
        as_given: bool = False,
        reason: str = "",
        request_id: str | UUID | None = None,
        wait: float = WAIT_S,
    ) -> D_co:
        """Open a dataset under a policy; the budget is fixed from the first grant on.

        The policy is the one of `accountant dataset open`: where it names none, no request may
        take more than 0.1 of the budget (`most_per_request`, "1" is none), basic composition
        counts beside the filter (`beside`, "none" is none), and with a token members alone may
        ask (`access`). A dataset that is open under this policy is left as it is, so that a
        program may begin with its opening each time.

        Args:
            policy: such as `{"epsilon": "1", "delta": "1e-6"}`; amounts are decimal strings.
            owners: who may decide about it from then on; without them `by` alone. A dataset that
                is open keeps its own, which are not compared: `members` tells them.
            as_given: neither the cap nor basic composition is proposed.
        Raises: PolicyDiffers: the dataset was opened under another policy.
        """

        def make(**how: Any) -> PreparedRequest:
            how |= {"owners": owners, "reason": reason, "as_given": as_given}
            return prepare_open(dataset, policy, **how)

        return self.opened(by, self._made(by, request_id, make), given_seconds("wait", wait))

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
        follows: int | None = None,
        by: str | None = None,
        reason: str = "",
        request_id: str | UUID | None = None,
        wait: float = WAIT_S,
    ) -> D_co:
        """Change thresholds, horizon, cap or access; or, before any grant, lower the budget.

        Args:
            alert_at: ratios of the budget, increasing, such as `["0.5", "0.9"]`; None keeps
                those there are, as it does for the others.
            horizon: how long the budget is to last, such as `P365D`.
            most_per_request: the most that one request may take, a ratio.
            access: who may ask, `members` or `anyone`.
            visibility: whose decisions an analyst sees, `own` or `members`.
            policy: the whole policy with a lower budget, and nothing beside it; refused once
                anything was granted. What it does not name is proposed, as by `open`.
            as_given: nothing is proposed.
        """

        def make(**how: Any) -> PreparedRequest:
            return prepare_amend(
                dataset,
                alert_at=alert_at,
                horizon=horizon,
                most_per_request=most_per_request,
                policy=policy,
                as_given=as_given,
                access=access,
                visibility=visibility,
                follows=follows,
                reason=reason,
                **how,
            )

        return self._said(by, request_id, wait, make)

    def close_dataset(
        self,
        dataset: str,
        *,
        follows: int | None = None,
        by: str | None = None,
        reason: str = "",
        request_id: str | UUID | None = None,
        wait: float = WAIT_S,
    ) -> D_co:
        """Close a dataset: nothing more is granted."""

        def make(**how: Any) -> PreparedRequest:
            return prepare_close(dataset, follows=follows, reason=reason, **how)

        return self._said(by, request_id, wait, make)

    def set_member(
        self,
        dataset: str,
        member: str,
        *,
        roles: Sequence[str],
        team: str | None = None,
        until: str | dt.date | dt.datetime | None = None,
        as_administrator: bool = False,
        follows: int | None = None,
        by: str | None = None,
        reason: str = "",
        request_id: str | UUID | None = None,
        wait: float = WAIT_S,
    ) -> D_co:
        """Say what somebody may do on a dataset, in place of what was said before.

        Args:
            roles: some of `owner`, `analyst`, `engine`, `auditor`.
            team: the one that the member belongs to in this dataset.
            until: the first moment at which it is over: a day, which begins in UTC, or a time
                with its zone; an owner has none.
            as_administrator: an administrator's help, not an owner's word; a door takes it from
                its administrators alone.
        """

        def make(**how: Any) -> PreparedRequest:
            return prepare_member(
                dataset,
                member,
                roles=roles,
                team=team,
                until=until,
                as_administrator=as_administrator,
                follows=follows,
                reason=reason,
                **how,
            )

        return self._said(by, request_id, wait, make)

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
        follows: int | None = None,
        by: str | None = None,
        reason: str = "",
        request_id: str | UUID | None = None,
        wait: float = WAIT_S,
    ) -> D_co:
        """Limit what somebody may use of a budget, in place of what was said before.

        With none of part, policy, pace and reserved, the limit is lifted.

        Args:
            scope: `team`, `analyst`, `each` (every analyst of a team without a limit of their
                own) or `dataset`, which takes a pace alone.
            name: the team or the analyst.
            part: a ratio of each sum of the dataset's budget.
            policy: instead, filter and budget of its own.
            pace: a ratio of the dataset's budget and the period that it is for: `("0.01", "P1D")`.
            reserved: a ratio of the dataset's budget that nobody else may use.
        """

        def make(**how: Any) -> PreparedRequest:
            return prepare_limit(
                dataset,
                scope,
                name,
                part=part,
                policy=policy,
                pace=pace,
                reserved=reserved,
                follows=follows,
                reason=reason,
                **how,
            )

        return self._said(by, request_id, wait, make)

    def remove_member(
        self,
        dataset: str,
        member: str,
        *,
        as_administrator: bool = False,
        follows: int | None = None,
        by: str | None = None,
        reason: str = "",
        request_id: str | UUID | None = None,
        wait: float = WAIT_S,
    ) -> D_co:
        """Take all roles from somebody; the last owner stays (`last_owner`)."""
        return self.set_member(
            dataset,
            member,
            roles=(),
            as_administrator=as_administrator,
            follows=follows,
            by=by,
            reason=reason,
            request_id=request_id,
            wait=wait,
        )
