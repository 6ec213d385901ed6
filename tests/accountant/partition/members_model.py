"""Members as docs/reference tells of them, in plain dictionaries: nothing of the product.

The model decides every body that `member_loads` makes. Its datasets add up epsilons, in
thousandths, so that what a request costs needs no ledger.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any, Final

Body = dict[str, Any]
Fields = dict[str, Any]

ROLES: Final = ("owner", "analyst", "engine", "auditor", "curator")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def text_of(at: int) -> str:
    """Return a time in milliseconds as the log writes it."""
    moment = _EPOCH + timedelta(milliseconds=at)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at % 1000:03d}Z"


def time_of(text: str) -> int:
    """Return milliseconds since 1970 of a time as the log writes it."""
    moment = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%f%z")
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def thousandths(text: str) -> int:
    return int(Fraction(text) * 1000)


@dataclass
class Dataset:
    """What a dataset has come to.

    Attributes:
        left: thousandths of epsilon that may still be spent; `spent`: those that were.
        members: a row each, as `state` has it.
        granted_at, closed_at: time of the first grant and of the closing.
    """

    policy: Body
    sequence: int = 0
    spent: int = 0
    closed: bool = False
    paused: bool = False
    halted: bool = False
    granted_at: int | None = None
    closed_at: int | None = None
    members: dict[str, Fields] = field(default_factory=dict)

    @property
    def left(self) -> int:
        return thousandths(self.policy["epsilon"]) - self.spent

    @property
    def owners(self) -> list[str]:
        return [name for name, row in self.members.items() if "owner" in row["roles"]]

    def holds(self, name: str, role: str, at: int) -> bool:
        row = self.members.get(name, {"roles": []})
        return role in row["roles"] and ("until" not in row or at < row["until"])


class Model:
    """A partition, as far as members matter.

    Attributes:
        at, floor: clock and floor, milliseconds.
    """

    def __init__(self, start: int, window: int, skew: int) -> None:
        self.datasets: dict[str, Dataset] = {}
        self.at, self.floor = start, 0
        self._window, self._skew = window, skew
        self._ids: dict[tuple[str, ...], bytes] = {}
        self._kept: Any = None
        self._new_ids: list[tuple[str, ...]] = []
        self.commit()

    def commit(self) -> None:
        """Keep what was decided so far."""
        self._kept = copy.deepcopy(self.datasets), self.at, self.floor
        self._new_ids.clear()

    def drop(self) -> None:
        """Go back to the last commit."""
        datasets, self.at, self.floor = self._kept
        self.datasets = copy.deepcopy(datasets)
        for key in self._new_ids:
            del self._ids[key]
        self._new_ids.clear()

    def decide(self, source: str, body: Body, value: bytes, issued: int, at: int) -> Fields:
        """Return what the decision must say of a body: outcome, reason, sequence, and members."""
        self.at = max(self.at, at)
        if body["broken"]:
            return {"outcome": "invalid", "reason": "invalid_field"}
        if source == "requests":
            self.floor = max(self.floor, self.at - self._window)
        if issued <= self.floor:
            return {"outcome": "expired"}
        if issued > self.at + self._skew:
            return {"outcome": "invalid", "reason": "issued_in_future"}
        caller = body["analyst"] if source == "requests" else body["by"]
        key = source, body["dataset"], caller, body["request_id"]
        if key in self._ids:
            return {"outcome": "repeated" if self._ids[key] == value else "conflict"}
        self._ids[key] = value
        self._new_ids.append(key)
        return self._new(body)

    def fail(self, at: int) -> Fields:
        """Return what is said of a record on which deciding has failed."""
        self.at = max(self.at, at)
        return {"outcome": "invalid", "reason": "internal_error"}

    def _new(self, body: Body) -> Fields:
        dataset = self.datasets.get(body["dataset"])
        if dataset is None:
            if body["type"] != "open":
                return {"outcome": "refused", "reason": "unknown_dataset"}
            return self._open(body)
        if body["type"] == "request":
            said = self._ask(dataset, body)
        else:
            said = self._govern(dataset, body)
        dataset.sequence += 1
        return {**said, "sequence": dataset.sequence}

    def _open(self, body: Body) -> Fields:
        dataset = self.datasets[body["dataset"]] = Dataset(dict(body["policy"]), sequence=1)
        said: Fields = {"outcome": "opened", "sequence": 1}
        owners = body["owners"] if "owners" in body else [body["by"]]
        for name in owners:
            dataset.members[name] = {"roles": ["owner"], "sequence": 1}
        return {**said, "owners": owners}

    def _ask(self, dataset: Dataset, body: Body) -> Fields:
        reason = self._refused(dataset, body)
        if reason == "exhausted" and dataset.policy.get("halt_on_refusal"):
            dataset.halted = True
        if reason is not None:
            return {"outcome": "refused", "reason": reason}
        dataset.spent += thousandths(body["claim"]["epsilon"])
        if dataset.granted_at is None:
            dataset.granted_at = self.at
        return {"outcome": "granted"}

    def _refused(self, dataset: Dataset, body: Body) -> str | None:
        policy, claim = dataset.policy, body["claim"]
        engine = body.get("via")
        if engine is not None and not dataset.holds(engine, "engine", self.at):
            return "not_permitted"
        closed_circle = policy.get("access") == "members"
        if closed_circle and not dataset.holds(body["analyst"], "analyst", self.at):
            return "not_permitted"
        if dataset.closed:
            return "closed"
        if dataset.paused:
            return "paused"
        if dataset.halted:
            return "halted"
        if body["unit"] != "person":
            return "unit_mismatch"
        if claim["type"] != "pure":
            return "claim_not_accepted"
        maximum = Fraction(policy.get("most_per_request", "1"))
        cost = thousandths(claim["epsilon"])
        # Under a cap of 1 or none, what exceeds the whole budget does not fit what is left.
        if maximum < 1 and cost > maximum * thousandths(policy["epsilon"]):
            return "above_cap"
        return "exhausted" if cost > dataset.left else None

    def _govern(self, dataset: Dataset, body: Body) -> Fields:
        kind = body["type"]
        helps = body.get("as") == "administrator"
        if kind == "open":
            return {"outcome": "refused", "reason": "already_opened"}
        if dataset.owners and body["by"] not in dataset.owners and not helps:
            return {"outcome": "refused", "reason": "not_permitted"}
        if dataset.closed and kind != "member":
            return {"outcome": "refused", "reason": "closed"}
        if body.get("follows", dataset.sequence) != dataset.sequence:
            return {"outcome": "refused", "reason": "out_of_date"}
        if kind == "member":
            return self._member(dataset, body, helps=helps)
        if kind in {"pause", "resume"}:
            return self._brake(dataset, pauses=kind == "pause", helps=helps)
        if kind == "close":
            dataset.closed, dataset.closed_at, dataset.paused = True, self.at, False
            return {"outcome": "closed"}
        if "policy" in body:
            return self._lower(dataset, body["policy"])
        for name in ("access", "visibility", "most_per_request"):
            if name in body:
                dataset.policy[name] = body[name]
        return {"outcome": "amended"}

    @staticmethod
    def _brake(dataset: Dataset, *, pauses: bool, helps: bool) -> Fields:
        if dataset.paused == pauses:
            return {"outcome": "refused", "reason": "already_paused" if pauses else "not_paused"}
        dataset.paused = pauses
        said: Fields = {"outcome": "paused" if pauses else "resumed"}
        return said | {"administrator": True} if helps else said

    def _lower(self, dataset: Dataset, policy: Body) -> Fields:
        if dataset.spent or dataset.granted_at is not None:
            return {"outcome": "refused", "reason": "already_granted"}
        if "population" in dataset.policy:
            return {"outcome": "refused", "reason": "not_lower"}
        if thousandths(policy["epsilon"]) > thousandths(dataset.policy["epsilon"]):
            return {"outcome": "refused", "reason": "not_lower"}
        kept = {n: dataset.policy[n] for n in ("access", "visibility") if n in dataset.policy}
        dataset.policy = {**kept, **policy}
        return {"outcome": "amended"}

    def _member(self, dataset: Dataset, body: Body, *, helps: bool) -> Fields:
        name = body["member"]
        roles = [role for role in ROLES if role in body["roles"]]
        if not roles and name not in dataset.members:
            return {"outcome": "refused", "reason": "unknown_member"}
        if dataset.owners == [name] and "owner" not in roles:
            return {"outcome": "refused", "reason": "last_owner"}
        if name not in dataset.members and len(dataset.members) >= 10_000:
            return {"outcome": "refused", "reason": "too_many_members"}
        reported: Fields = {"member": name, "roles": roles}
        said: Fields = {"outcome": "member_set" if roles else "member_removed", "member": reported}
        if helps:
            said["administrator"] = True
        if not roles:
            del dataset.members[name]
            return said
        row: Fields = {"roles": roles}
        if "team" in body:
            row["team"] = reported["team"] = body["team"]
        if "until" in body:
            reported["until"] = body["until"]
            row["until"] = time_of(body["until"])
        dataset.members[name] = {**row, "sequence": dataset.sequence + 1}
        return said

    def rows(self) -> dict[str, Fields]:
        """Return the rows of all members, by their keys."""
        rows = {}
        for dataset, found in self.datasets.items():
            for name, row in found.members.items():
                head = {"type": "member", "version": 2, "dataset": dataset, "member": name}
                rows[f'{{"dataset":"{dataset}","member":"{name}"}}'] = {**head, **row}
        return rows

    def counts(self, name: str) -> Fields:
        """Return what the row of a dataset says of its members."""
        dataset = self.datasets[name]
        counts: Fields = {"owners": len(dataset.owners), "members": len(dataset.members)}
        if "population" in dataset.policy and dataset.granted_at is not None:
            counts["granted_at"] = dataset.granted_at
        if "population" in dataset.policy and dataset.closed_at is not None:
            counts["closed_at"] = dataset.closed_at
        if dataset.paused:
            counts["paused"] = True
        return {field: value for field, value in counts.items() if value}
