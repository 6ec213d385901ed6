"""What a ledger of basic composition must decide, written apart from it.

It adds fractions and imports nothing of what it judges. Requests are for pure claims.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

POISON = "poison"
"""In the purpose of a request on which the tests make adjudication raise."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_AMOUNT = re.compile(r"(0|[1-9][0-9]{0,8})(\.[0-9]{1,40})?(e-?[0-9]{1,2})?")
_FIELDS = {"version", "type", "request_id", "dataset"}

Verdict = tuple[str, str | None]


def millis(text: str) -> int:
    """Return milliseconds since 1970 of a time on the wire."""
    moment = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(milliseconds=1)


@dataclass
class Account:
    """One dataset."""

    budget: Fraction
    spent: Fraction = Fraction(0)
    grants: int = 0
    sequence: int = 0
    closed: bool = False


@dataclass
class Model:
    """The state after some inputs.

    Attributes:
        outcomes: how many decisions had each outcome and reason.
        granted: the ids that were charged.
    """

    window_ms: int
    skew_ms: int
    floor: int = 0
    accounts: dict[str, Account] = field(default_factory=dict)
    outcomes: Counter[Verdict] = field(default_factory=Counter)
    granted: set[tuple[str, ...]] = field(default_factory=set)
    _ids: dict[tuple[str, ...], tuple[bytes, str]] = field(default_factory=dict)

    def take(self, source: str, body: bytes | None, decision: dict[str, Any], digest: str) -> None:
        """Decide the next input, and compare.

        Raises: AssertionError: the decision is another one.
        """
        at = millis(decision["decided_at"])
        expected = self._decide(source, body, at, digest, decision)
        said = decision["outcome"], decision.get("reason")
        assert said == expected, f"{said}, must be {expected}: {decision}"
        self.outcomes[expected] += 1

    def _decide(
        self, source: str, body: bytes | None, at: int, digest: str, decision: dict[str, Any]
    ) -> Verdict:
        request = _parsed(body)
        if request is None or body is None:
            return "invalid", "undecodable"
        if not isinstance(request, dict):
            return "invalid", "invalid_field"
        if request.get("purpose") == POISON:
            return "invalid", "internal_error"
        if not _sound(request):
            return "invalid", "invalid_field"
        if source == "requests":
            self.floor = max(self.floor, at - self.window_ms)
        issued = int(request["request_id"].replace("-", "")[:12], 16)
        if issued <= self.floor:
            return "expired", None
        if issued > at + self.skew_ms:
            return "invalid", "issued_in_future"
        who = request.get("analyst") or request["by"]
        key = source, request["dataset"], who, request["request_id"]
        if key in self._ids:
            first, hashed = self._ids[key]
            assert decision["first"]["hash"] == hashed, decision
            return ("repeated" if first == body else "conflict"), None
        self._ids[key] = body, digest
        return self._adjudicate(request, key, decision)

    def _adjudicate(
        self, request: dict[str, Any], key: tuple[str, ...], decision: dict[str, Any]
    ) -> Verdict:
        account = self.accounts.get(request["dataset"])
        if request["type"] == "open" and account is None:
            account = Account(Fraction(request["policy"]["epsilon"]))
            self.accounts[request["dataset"]] = account
            verdict: Verdict = "opened", None
        elif account is None:
            return "refused", "unknown_dataset"
        else:
            verdict = self._spend(account, request, key)
        account.sequence += 1
        assert decision["sequence"] == account.sequence, decision
        assert account.spent <= account.budget
        _same_totals(decision["totals"], account)
        assert Fraction(decision["left"]["epsilon"]) == account.budget - account.spent, decision
        return verdict

    def _spend(self, account: Account, request: dict[str, Any], key: tuple[str, ...]) -> Verdict:
        if request["type"] == "open":
            return "refused", "already_opened"
        if account.closed:
            return "refused", "closed"
        if request["type"] == "close":
            account.closed = True
            return "closed", None
        if request["unit"] != "person":
            return "refused", "unit_mismatch"
        cost = Fraction(request["claim"]["epsilon"])
        if account.spent + cost > account.budget:
            return "refused", "exhausted"
        assert key not in self.granted, f"charged twice: {key}"
        self.granted.add(key)
        account.spent += cost
        account.grants += 1
        return "granted", None


def _parsed(body: bytes | None) -> Any:
    try:
        value = json.loads(body or b"")
    except ValueError:
        return None
    return "nothing" if value is None else value


def _sound(request: dict[str, Any]) -> bool:
    if not request.keys() >= _FIELDS:
        return False
    claim = request.get("claim")
    if request["type"] != "request":
        return claim is None
    text = claim.get("epsilon") if isinstance(claim, dict) else None
    if not isinstance(text, str) or _AMOUNT.fullmatch(text) is None:
        return False
    return text == "0" or Fraction("1e-12") <= Fraction(text) <= 1000


def _same_totals(said: dict[str, Any], account: Account) -> None:
    assert Fraction(said["epsilon"]) == account.spent, said
    assert said["mechanisms"] == account.grants, said


def judge(
    log: Sequence[bytes],
    inputs: Mapping[Any, Sequence[bytes | None]] | None = None,
    rows: Mapping[bytes, bytes] | None = None,
) -> Model:
    """Return what a log comes down to.

    Args:
        log: a partition's decisions, from genesis.
        inputs: the bodies by source; without them, as the decisions repeat them.
        rows: of `state`, to be what the log says; {} stands for none yet.
    Raises: AssertionError: chain, order, outcome, cost or total is not as it must be, an
        input has no decision or two, or a row disagrees.
    """
    genesis = json.loads(log[0])["genesis"]
    model = Model(genesis["window_ms"], genesis["skew_ms"])
    head, following, last = "sha256:" + "0" * 64, {"requests": 0, "admin": 0}, 0
    for number, value in enumerate(log):
        decision = json.loads(value)
        assert (decision["partition_sequence"], decision["previous"]) == (number, head), number
        head = f"sha256:{hashlib.sha256(value).hexdigest()}"
        assert millis(decision["decided_at"]) >= last, decision
        last = millis(decision["decided_at"])
        if number == 0:
            continue
        source, offset = decision["source"]["topic"], decision["source"]["offset"]
        assert offset == following[source], decision
        following[source] += 1
        body = repeated_body(value) if inputs is None else inputs[source][offset]
        model.take(source, body, decision, head)
        assert millis(decision["floor"]) == model.floor, decision
    if inputs is not None:
        assert following == {source: len(bodies) for source, bodies in inputs.items()}
    if rows:
        _same_rows(model, rows, len(log) - 1, head, following)
    return model


def repeated_body(value: bytes) -> bytes | None:
    """Return the request that a decision repeats, byte for byte."""
    text = value.decode()
    start = text.find('"request":')
    if start < 0:
        return None
    start += len('"request":')
    _, end = json.JSONDecoder().raw_decode(text, start)
    return text[start:end].encode()


def _same_rows(
    model: Model, rows: Mapping[bytes, bytes], last: int, head: str, following: dict[str, int]
) -> None:
    parsed = {key: json.loads(value) for key, value in rows.items()}
    row = parsed.pop(b'{"partition":0}')
    assert (row["partition_sequence"], row["head"]) == (last, head)
    assert row["next"] == following
    members = {key for key in parsed if key.startswith(b"{")}
    # Nothing here sets a member, so the members are the owners that the openings named.
    assert row.get("members", 0) == len(members) == len(model.accounts)
    for key in members:
        owner = parsed.pop(key)
        assert (owner["roles"], owner["sequence"]) == (["owner"], 1)
        assert owner["dataset"] in model.accounts
    assert row["datasets"] == len(parsed)
    assert {key.decode() for key in parsed} == model.accounts.keys()
    for key, snapshot in parsed.items():
        account = model.accounts[key.decode()]
        assert (snapshot["sequence"], snapshot["closed"]) == (account.sequence, account.closed)
        _same_totals(snapshot["totals"], account)
