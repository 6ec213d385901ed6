"""A ledger without a service: it reads JSON lines and decides them by the service's code."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

import msgspec

from accountant.dataset_ledger import DatasetLedger
from accountant.errors import BudgetError
from accountant.partition import Partition, hash_of
from accountant.partition import decide as adjudication
from accountant.partition.draft import Draft, genesis_decision
from accountant.policy import Policy
from accountant.records import DECODE_ERRORS, VERSION, Genesis, Source, encode
from accountant.records.encoded_decision import EncodedDecision
from accountant.records.inputs import Input, canonical, check
from accountant.records.kinds import KINDS
from accountant.records.requests import MechanismRequest, Open
from accountant.replay.apply import apply
from accountant.times import issued_at, uuid7

ADMIN_TYPES: Final = frozenset(kind.name for kind in KINDS if kind.source == "admin")
"""The `type` of each record that owners send."""
_BATCH: Final = 500
LAST_MS: Final = 253_402_300_799_999
"""The end of the year 9999: the last time that a decision's text can state."""


class OfflineLedger:
    """One partition that decides lines in order; its clock is the time in the lines' ids.

    The same lines give the same bytes, and `accountant audit` accepts them.
    """

    def __init__(self, policy: Policy | None, application: str) -> None:
        """Make an empty ledger.

        Args:
            policy: a resolved policy that opens each dataset at its first request; None leaves
                opening to `open` records among the lines.
            application: name in the log's genesis.
        """
        self._policy = policy
        self._genesis = Genesis(application, 0, 1, window_ms=3_600_000, skew_ms=300_000)
        self._partition = Partition(self._genesis)
        self._draft: Draft | None = None
        self._lines = 0

    def take(self, line: bytes) -> Iterator[EncodedDecision]:
        """Decide one line.

        Yields: the genesis before the first line, the opening before a dataset's first request,
            then the line's decision.
        """
        source, issued, datasets = _inspect(line)
        if self._draft is None:
            first = genesis_decision(self._genesis, issued or 0)
            apply(self._partition, first.decision, hash_of(first.value))
            self._draft = Draft(self._partition)
            yield first
        elif self._lines % _BATCH == 0:
            self._draft.absorb()
            self._draft = Draft(self._partition)
        self._lines += 1
        draft = self._draft
        now = max(draft.decided_at, issued or 0)
        for dataset in datasets:
            if self._policy is not None and draft.ledger(dataset) is None:
                yield _decide(draft, "admin", _opening(dataset, self._policy, now), now)
        yield _decide(draft, source, line, now)

    def ledger(self, dataset: str) -> DatasetLedger | None:
        """Return a dataset's ledger, None if the dataset was never opened."""
        return None if self._draft is None else self._draft.ledger(dataset)


def _inspect(line: bytes) -> tuple[Source, int | None, tuple[str, ...]]:
    """Return the input of a line, the time of its id, and the datasets that it may open."""
    source: Source = "requests"
    if tag_of(line) in ADMIN_TYPES:
        source = "admin"
    try:
        checked = check(source, canonical(line))
    except BudgetError:
        return source, None, ()
    issued = issued_at(checked.body.request_id)
    if issued is not None and issued > LAST_MS:
        issued = None  # such an id is `issued_in_future` whatever the clock says
    request = checked.body
    if isinstance(request, MechanismRequest):
        return source, issued, request.datasets
    return source, issued, (request.dataset,) if source == "requests" else ()


def tag_of(line: bytes) -> object:
    """Return the `type` of a line, None if it has none."""
    try:
        value = msgspec.json.decode(line)
    except DECODE_ERRORS:
        return None
    return value.get("type") if isinstance(value, dict) else None


def _opening(dataset: str, policy: Policy, now: int) -> bytes:
    """Return the record that opens a dataset; its id depends on the name and the time alone."""
    random = hashlib.sha256(dataset.encode()).digest()[:10]
    record = Open(
        version=VERSION,
        request_id=uuid7(now, random),
        dataset=dataset,
        by="decide",
        policy=policy,
        reason="opened at its first request",
    )
    return encode(record)


def _decide(draft: Draft, source: Source, body: bytes, now: int) -> EncodedDecision:
    """Decide one line; no line may stop the lines after it."""
    record = Input(source, draft.next[source], None, body, now)
    mark = draft.mark()
    try:
        return adjudication.decide(draft, record, now)
    except Exception:
        draft.rewind(mark)
        return adjudication.decide_internal_error(draft, record, now)
