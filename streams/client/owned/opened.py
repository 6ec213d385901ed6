"""A dataset that is open already: under this policy, or under another one."""

from __future__ import annotations

from accountant.errors import BudgetError
from accountant.policy import Policy
from accountant.policy.proposed import differences
from accountant.records import Decision, Open, decode_decision, encode
from accountant.records.inputs import check
from accountant.records.outcomes import Reason
from streams.client.requests import PreparedRequest


class PolicyDiffers(BudgetError):
    """A dataset was opened under another policy than is asked for: it stays as it is.

    Attributes:
        dataset: its name.
        fields: what it has and what was asked, by field.
        record: the refusal, as the log has it.
    """

    def __init__(self, dataset: str, fields: dict[str, tuple[str, str]], record: bytes) -> None:
        self.dataset = dataset
        self.fields = fields
        self.record = record
        told = "; ".join(
            f"{name}: has {has}, asked {asked}" for name, (has, asked) in fields.items()
        )
        super().__init__(
            f"dataset {dataset} was opened under another policy: {told}. Ask for the policy that "
            "it has, or open a dataset of another name"
        )

    @property
    def decision(self) -> Decision:
        """The refusal."""
        return decode_decision(self.record)


def was_open(decision: Decision) -> bool:
    """Tell whether a decision on an opening refuses it, since the dataset was opened before."""
    told = decision if decision.first is None else decision.first
    return told.reason is Reason.ALREADY_OPENED


def check_same_policy(call: PreparedRequest, decision: Decision, has: Policy) -> None:
    """Check that a dataset has the policy that a call would have opened it under.

    Raises: PolicyDiffers.
    """
    record = check("admin", call.body).body
    assert isinstance(record, Open)
    fields = differences(has, record.policy)
    if fields:
        raise PolicyDiffers(call.dataset, fields, encode(decision))
