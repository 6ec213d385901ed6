"""What is asked of a ledger, the same for the client that waits and the one that is awaited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

from accountant.claims import Claim
from accountant.policy import Neighbours, Policy
from streams.client.requests import (
    PreparedRequest,
    new_id,
    prepare_amend,
    prepare_close,
    prepare_open,
    prepare_request,
    prepared,
)
from streams.clock import Clock

WAIT_S: Final = 5.0

T = TypeVar("T")


class LedgerMethods(Generic[T]):
    """Requests and owners' records, each sent by `decided`.

    `T` is a decision, or what is awaited for one. What is wrong with a call is raised by the
    call itself, before anything is sent.

    Attributes:
        clock: dates the ids.
    """

    clock: Clock

    def decided(self, call: PreparedRequest, wait: float) -> T:
        """Send a call until it is answered, the same bytes each time."""
        raise NotImplementedError

    def ask(
        self,
        dataset: str,
        claim: str | Claim,
        *,
        analyst: str,
        purpose: str = "",
        unit: str = "person",
        neighbours: Neighbours = "add_remove",
        request_id: str | None = None,
        wait: float = WAIT_S,
    ) -> T:
        """Ask to run one mechanism on a dataset.

        Args:
            dataset: its name.
            claim: what the mechanism promises, as text (`gaussian:sigma=20,sensitivity=1`)
                or as a value of `accountant.claims`.
            analyst: who asks.
            purpose: for people, at most 200 characters.
            unit, neighbours: what the promise is for; those of the dataset's policy.
            request_id: of an earlier call, to ask again; without it a new one.
            wait: seconds to wait for the decision, retries included; a call that is under way
                then takes at most about two more.
        Raises: RequestInvalid, Unanswered (its `request_id` is to ask again with), Refused.
        """
        call = prepare_request(
            dataset,
            claim,
            analyst=analyst,
            purpose=purpose,
            unit=unit,
            neighbours=neighbours,
            request_id=request_id or new_id(self.clock),
        )
        return self.decided(call, wait)

    def submit(self, body: bytes, *, wait: float = WAIT_S) -> T:
        """Send a body of your own, a request or an admin record; retries send the same bytes."""
        return self.decided(prepared(body), wait)

    def open(
        self,
        dataset: str,
        policy: Policy | Mapping[str, Any],
        *,
        by: str,
        reason: str = "",
        request_id: str | None = None,
        wait: float = WAIT_S,
    ) -> T:
        """Open a dataset under a policy; the budget is fixed then.

        Args:
            policy: such as `{"epsilon": "1", "delta": "1e-6"}`; amounts are decimal strings.
            by: its owner.
        """
        request_id = request_id or new_id(self.clock)
        call = prepare_open(dataset, policy, by=by, reason=reason, request_id=request_id)
        return self.decided(call, wait)

    def amend(
        self,
        dataset: str,
        *,
        alert_at: Sequence[str] | None = None,
        horizon: str | None = None,
        by: str,
        reason: str = "",
        request_id: str | None = None,
        wait: float = WAIT_S,
    ) -> T:
        """Change a dataset's alert thresholds or horizon; its budget never changes.

        Args:
            alert_at: ratios of the budget, increasing, such as `["0.5", "0.9"]`; None keeps
                those there are.
            horizon: how long the budget is to last, such as `P365D`; None keeps it.
            by: its owner.
        """
        call = prepare_amend(
            dataset,
            alert_at=alert_at,
            horizon=horizon,
            by=by,
            reason=reason,
            request_id=request_id or new_id(self.clock),
        )
        return self.decided(call, wait)

    def close(
        self,
        dataset: str,
        *,
        by: str,
        reason: str = "",
        request_id: str | None = None,
        wait: float = WAIT_S,
    ) -> T:
        """Close a dataset: nothing more is granted."""
        request_id = request_id or new_id(self.clock)
        call = prepare_close(dataset, by=by, reason=reason, request_id=request_id)
        return self.decided(call, wait)
