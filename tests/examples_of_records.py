"""An example of each kind of record: its fields, and the command and the call that send it.

Tests that go through the kinds, the owners' commands or their calls take them from here. A new kind
needs one row; `tests/accountant/records/test_kinds.py` names the kinds without one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

GRANT: Final = "sha256:" + "0" * 64
WHY: Final = {"reason": "why", "follows": 99}
"""What an owner's call adds, where the wire has it."""
NEED_A_REASON: Final = frozenset({"pause_member", "more", "decline"})


class Text(str):
    """A word of a command line that people choose: a test may replace it by a hostile one."""


class Example(NamedTuple):
    """A record, a command line and a call that do the same.

    Attributes:
        kind: the record's `type`.
        fields: those that the call sends, beside those of every record, in the order of the wire.
        more: the other fields that the kind may have.
        command: the command that sends it; "" of a further example of a kind.
        words: what follows the name of the dataset. GRANT is the name of a reservation.
        call: the owner's method that sends it; "" of a record of analysts.
        arguments: what the method takes, beside the dataset.
    """

    kind: str
    fields: dict[str, Any]
    more: dict[str, Any] = {}  # noqa: RUF012 (of a tuple, never changed)
    command: str = ""
    words: tuple[str, ...] = ()
    call: str = ""
    arguments: dict[str, Any] = {}  # noqa: RUF012

    @property
    def is_owners(self) -> bool:
        """Whether owners send it."""
        return bool(self.call)

    @property
    def own_fields(self) -> dict[str, Any]:
        """The fields without those of `WHY`, but for a reason that the kind needs."""
        left_out = WHY.keys() - ({"reason"} if self.kind in NEED_A_REASON else set())
        return {name: value for name, value in self.fields.items() if name not in left_out}

    def whole(self, request_id: str) -> dict[str, Any]:
        """Return a record with all the fields; not every choice of them is valid together."""
        head = {"version": 1, "type": self.kind, "request_id": request_id, "dataset": "census"}
        sender = {"by": "olga"} if self.is_owners else {"analyst": "ana"}
        return {**head, **sender, **self.fields, **self.more}

    def line(
        self,
        dataset: str = "census",
        *,
        new: str = "other",
        grant: str = GRANT,
        text: str | None = None,
    ) -> tuple[str, ...]:
        """Return what follows the command's name.

        Args:
            new: the name of a dataset that is opened.
            text: replaces each text that people choose; None leaves them as they are.
        """
        words = (text if text and isinstance(each, Text) else each for each in self.words)
        given = (grant if each == "GRANT" else str(each) for each in words)
        analyst = () if self.is_owners else ("--analyst", "ana")
        return new if self.kind == "open" else dataset, *given, *analyst

    def send(self, owner: Any, dataset: str) -> Any:
        """Call the method of an owner, or of an administrator."""
        call: Callable[..., Any] = getattr(owner, self.call)
        return call(dataset, **self.arguments)


RHO: Final = {"filter": "zcdp", "rho": "0.1", "most_per_request": "1"}
PURE: Final = {"type": "pure", "epsilon": "0.1"}
ASKED: Final = {"unit": "person", "neighbours": "replace"}
BUDGET: Final = {"filter": "zcdp", "rho": "0.1", "delta": "1e-6", "delta_for_claims": "1e-7"}
POLICY: Final[dict[str, Any]] = {
    **BUDGET,
    "epsilon": "1",
    **ASKED,
    "horizon": "P9D",
    "alert_at": ["0.5"],
    "most_per_request": "0.1",
    "access": "members",
    "visibility": "own",
    "population": "people",
    "beside": "basic",
    "order": "2",
    "open_per_holder": 100,
    "outside": True,
    "approve_above": "0.1",
    "approve_within": "P7D",
    "orders": ["2"],
    "weights": ["1"],
    "epsilon_ex_post": "1",
    "delta_ex_post": "0",
    "epsilon_each": "1",
    "odometers": [{"type": "one_sided_mixture", "delta": "1e-7", "r": "1"}],
    "halt_on_refusal": True,
}
"""Every field that a policy may have."""
SCHEMA: Final = {
    "source": {"kind": "parquet", "name": "census"},
    "columns": [{"type": "category", "name": "region", "categories": ["north", "south"]}],
    "neighbours": "replace",
    "unit": {"column": "person", "rows": 2},
}
SPENT: Final = {"claim": PURE, "evidence": "a table", "fixed_before": True}
_ADMINISTRATOR: Final = {"as": "administrator"}
_REASON: Final = ("--reason", Text("why"))
_REQUESTS: Final = (
    Example(
        kind="request",
        fields={"claim": PURE, **ASKED},
        more={
            "via": "engine",
            "purpose": "a test",
            "claim": {"type": "repeat", "times": 2, "claim": PURE},
            "reserve": {"until": "P1D"},
        },
        command="ask",
        words=("pure:0.001",),
    ),
    Example(kind="request", fields={"other_datasets": ["returns"], "claim": PURE, **ASKED}),
    Example(
        kind="request",
        fields={
            "question": {"ask": "count", "where": "age > 65", "by": ["region"]},
            "noise": {"error": "50", "confidence": "0.95", "law": "laplace_reduction"},
            "stop": {"error": "50", "confidence": "0.95"},
            "reserve": {"until": "P1D"},
        },
    ),
    Example(
        kind="begin",
        fields={"grant": GRANT},
        more={"via": "engine"},
        command="reservation begin",
        words=("GRANT",),
    ),
    Example(
        kind="settle",
        fields={"grant": GRANT},
        more={"via": "engine", "shown": "0.1"},
        command="reservation settle",
        words=("GRANT",),
    ),
    Example(
        kind="void",
        fields={"grant": GRANT},
        more={"via": "engine"},
        command="reservation void",
        words=("GRANT",),
    ),
)
_OWNERS: Final = (
    Example(
        kind="open",
        fields={"policy": RHO, "reason": "why", "owners": ["olga"]},
        more={
            "policy": POLICY,
            "schema": SCHEMA,
            "budget": {"rho": "0.1", "epsilon": "1"},
            "lifetime": {"rho": "1", "epsilon": "10", "delta": "1e-5", "shared": True},
            "spent": SPENT,
        },
        command="dataset open",
        words=("--epsilon", "1", "--ceiling", "3", "--delta", "1e-6"),
        call="open",
        arguments={"policy": RHO, "as_given": True, "owners": ["olga"]},
    ),
    Example(
        kind="renew",
        fields={"renewed_as": "census::2027", "policy": RHO, **WHY, "owners": ["olga"]},
        more={"policy": POLICY, "schema": SCHEMA, "budget": {"rho": "0.1", "epsilon": "1"}},
        command="dataset renew",
        words=("census::2027", "--yes"),
        call="renew",
        arguments={
            "renewed_as": "census::2027",
            "policy": RHO,
            "as_given": True,
            "owners": ["olga"],
        },
    ),
    Example(
        kind="amend",
        fields={"horizon": "P9D", **WHY, "access": "members"},
        more={
            "alert_at": ["0.5"],
            "most_per_request": "0.1",
            "open_per_holder": 100,
            "approve_above": "0.1",
            "approve_within": "P7D",
            "policy": POLICY,
            "visibility": "own",
        },
        command="dataset amend",
        words=("--horizon", "P9D"),
        call="amend",
        arguments={"horizon": "P9D", "access": "members"},
    ),
    Example(
        kind="member",
        fields={"member": "ana", "roles": ["analyst"], "team": "blue", **WHY},
        more={"until": "2027-01-01T00:00:00.000Z", "answers": 1, **_ADMINISTRATOR},
        command="member set",
        words=("bob", "--role", "auditor", "--until", "P9D"),
        call="set_member",
        arguments={"member": "ana", "roles": ["analyst"], "team": "blue"},
    ),
    Example(
        kind="member",
        fields={"member": "ana", "roles": [], **WHY},
        command="member remove",
        words=(Text("bob"),),
        call="remove_member",
        arguments={"member": "ana"},
    ),
    Example(
        kind="limit",
        fields={
            "scope": "team",
            "name": "blue",
            "pace": {"part": "0.1", "period": "P1D"},
            **WHY,
        },
        more={
            "part": "0.1",
            "policy": BUDGET,
            "reserved": "0.1",
            "until": "2030-01-01T00:00:00.000Z",
            "answers": 1,
        },
        command="limit set",
        words=("--analyst", "ana", "--part", "0.9"),
        call="set_limit",
        arguments={"scope": "team", "name": "blue", "pace": ("0.1", "P1D")},
    ),
    Example(
        kind="limit",
        fields={"scope": "team", "name": "blue", **WHY},
        command="limit remove",
        words=("--analyst", Text("ana")),
        call="remove_limit",
        arguments={"scope": "team", "name": "blue"},
    ),
    Example(
        kind="pause",
        fields=WHY,
        more=_ADMINISTRATOR,
        command="dataset pause",
        words=_REASON,
        call="pause",
    ),
    Example(
        kind="resume",
        fields=WHY,
        more=_ADMINISTRATOR,
        command="dataset resume",
        words=_REASON,
        call="resume",
    ),
    Example(
        kind="pause_member",
        fields={"member": "ana", **WHY},
        command="member pause",
        words=(Text("ana"), *_REASON),
        call="pause_member",
        arguments={"member": "ana"},
    ),
    Example(
        kind="pause_member",
        fields={"team": "blue", **WHY},
        more=_ADMINISTRATOR,
        call="pause_member",
        arguments={"team": "blue"},
    ),
    Example(
        kind="resume_member",
        fields={"member": "ana", **WHY},
        command="member resume",
        words=(Text("ana"), *_REASON),
        call="resume_member",
        arguments={"member": "ana"},
    ),
    Example(
        kind="resume_member",
        fields={"team": "blue", **WHY},
        more=_ADMINISTRATOR,
        call="resume_member",
        arguments={"team": "blue"},
    ),
    Example(
        kind="label",
        fields={"label": "2020 census", **WHY},
        command="dataset label",
        words=(Text("2020 census"),),
        call="label",
        arguments={"text": "2020 census"},
    ),
    Example(
        kind="remark",
        fields={"decision": 1, "remark": "never ran", **WHY},
        command="dataset remark",
        words=("1", Text("never ran"), "--yes"),
        call="remark",
        arguments={"decision": 1, "text": "never ran"},
    ),
    Example(
        kind="budget",
        fields={"budget": {"epsilon": "0.3"}, **WHY},
        more={"answers": 1},
        call="set_budget",
        arguments={"epsilon": "0.3"},
    ),
    Example(
        kind="budget",
        fields={"budget": {"rho": "0.05"}, **WHY},
        command="dataset set-budget",
        words=("--epsilon", "2"),
        call="set_budget",
        arguments={"rho": "0.05"},
    ),
    Example(
        kind="record",
        fields={
            "claim": PURE,
            "released_at": "2026-01-01T00:00:00.000Z",
            "evidence": "a table",
            "team": "blue",
            "evidence_hash": GRANT,
            **WHY,
        },
        command="dataset record",
        words=("pure:0.1", "--at", "2026-01-01", "--evidence", Text("a table"), "--yes"),
        call="record",
        arguments={
            "claim": "pure:0.1",
            "released_at": "2026-01-01",
            "evidence": "a table",
            "team": "blue",
            "evidence_hash": GRANT,
        },
    ),
    Example(
        kind="more",
        fields={"wants": "access", "role": "auditor", **WHY},
        command="more ask",
        words=("access", "--role", "auditor", "--reason", Text("why")),
        call="ask_for_more",
        arguments={"wants": "access", "role": "auditor"},
    ),
    Example(
        kind="more",
        fields={"wants": "limit", "part": "0.2", **WHY},
        more={"budget": {"rho": "0.1", "epsilon": "1"}, "team": "red", "nonce": "0" * 32},
        call="ask_for_more",
        arguments={"wants": "limit", "part": "0.2"},
    ),
    Example(
        kind="decline",
        fields={"ask": 1, "asker": "ana", **WHY},
        command="more decline",
        words=("1", "--reason", Text("why")),
        call="decline",
        arguments={"ask": 1, "asker": "ana"},
    ),
    Example(
        kind="resolve",
        fields={"grant": GRANT, "claim": PURE, **WHY},
        more={"mistaken": "a mistyped level"},
        command="dataset resolve",
        words=("GRANT", "--mistaken", Text("none")),
        call="resolve",
        arguments={"grant": GRANT, "claim": "pure:0.1"},
    ),
    Example(
        kind="approve",
        fields={"pending": GRANT, "reason": "why"},
        command="approval approve",
        words=("GRANT", *_REASON),
        call="approve",
        arguments={"pending": GRANT},
    ),
    Example(
        kind="deny",
        fields={"pending": GRANT, "reason": "why"},
        command="approval deny",
        words=("GRANT", *_REASON),
        call="deny",
        arguments={"pending": GRANT},
    ),
    Example(
        kind="close",
        fields=WHY,
        command="dataset close",
        words=(*_REASON, "--yes"),
        call="close",
    ),
)
"""In an order in which one dataset takes them: the opening is the first, the closing the last."""
EXAMPLES: Final = (*_REQUESTS, *_OWNERS)
COMMANDS: Final = {each.command: each for each in EXAMPLES if each.command}
CALLS: Final = {each.call: each for each in EXAMPLES if each.call}


def examples_of(kind: str) -> list[Example]:
    """Return the examples of a kind."""
    return [each for each in EXAMPLES if each.kind == kind]
