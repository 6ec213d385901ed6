"""One partition by the documents: clock, expiry watermark, ids, chain, each input's decision."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Set
from typing import Final, NamedTuple

from tests.faults.oracle.approvals import Waiting
from tests.faults.oracle.commands import COMMANDS, written
from tests.faults.oracle.dataset import Dataset
from tests.faults.oracle.disagreement import Disagreement, agree
from tests.faults.oracle.expected import Fields, Holds, compare
from tests.faults.oracle.generations import charge, latest_of, opening_refusal, renewal_refusal
from tests.faults.oracle.keys import partition_of
from tests.faults.oracle.limits import Clock
from tests.faults.oracle.owners import close
from tests.faults.oracle.policies import resolved
from tests.faults.oracle.repeated import names_one, request_of
from tests.faults.oracle.several import asked_of_all, step_in_all
from tests.faults.oracle.snapshot import RULES
from tests.faults.oracle.steps import STEPS
from tests.faults.oracle.texts import at_text, issued, millis
from tests.faults.oracle.wire import Read, read

INPUTS: Final = ("requests", "admin")
DEAD: Final = {"undecodable", "oversize", "wrong_partition", "internal_error"}
_NOTHING: Final = "sha256:" + "0" * 64
_SECOND: Final = 1000
MOST_IDS: Final = 1_000_000

Key = tuple[str, str, str, str]


class InputAsSent(NamedTuple):
    """One input as sent.

    Attributes:
        offset: its place in its input.
        appended: when it was taken in, milliseconds since 1970, or between which two moments.
    """

    offset: int
    key: bytes | None
    value: bytes | None
    appended: tuple[int, int]


class RememberedId(NamedTuple):
    """The remembered data of an id."""

    issued: int
    body: bytes
    first: Fields


class Partition:
    """The replay of one partition's log.

    Args:
        inputs: what was sent, by source, in order.
        internal_errors: (source, offset) of inputs whose decision a test has made fail.
        most_ids: how many ids it remembers.

    Attributes:
        number, head: of the last decision taken; `heads` of all.
        resets, reset_at: how often the clock was set back, and to when.
        branch, key: how many rollbacks the log has accepted, and the key that it names.
        datasets: by name.
        ids: those that were remembered, by source, dataset, sender and id; an id that was issued
            at the floor or before has been forgotten.
        letters: (source, input, reason) of each that belongs among the dead letters.
        decisions: those taken, genesis left out.
        last: the input of the last one, None where it has none.
    """

    def __init__(
        self,
        partition: int,
        inputs: dict[str, list[InputAsSent]],
        internal_errors: Set[tuple[str, int]] = frozenset(),
        most_ids: int = MOST_IDS,
    ) -> None:
        self.partition = partition
        self.number, self.head = -1, _NOTHING
        self.genesis: Fields = {}
        self.at = self.floor = 0
        self.datasets: dict[str, Dataset] = {}
        self.letters: list[tuple[str, InputAsSent, str]] = []
        self.decisions: list[Fields] = []
        self.last: InputAsSent | None = None
        self.next = dict.fromkeys(INPUTS, 0)
        self._inputs = inputs
        self._taken = dict.fromkeys(INPUTS, 0)
        self._errors = internal_errors
        self._most_ids = most_ids
        self.ids: dict[Key, RememberedId] = {}
        self.heads: list[str] = []
        self.branch = 0
        self.key: str | None = None
        self.resets = self.reset_at = 0

    @property
    def clock(self) -> Clock:
        return Clock(self.at, self.resets, self.reset_at)

    def take(self, value: bytes) -> Fields:
        """Check one decision against all earlier ones, and against its input.

        Raises: Disagreement: it is another one than the documents predict.
        """
        said: Fields = json.loads(value)
        where = self.partition, self.number + 1
        agree("chain", said.get("previous"), self.head, where)
        agree("number", said.get("partition_sequence"), self.number + 1, where)
        # A seal is of the state before it.
        is_command = self.number >= 0 and said.get("outcome") in COMMANDS
        fields = written(self, said) if is_command else {}
        self.number += 1
        self.last = None
        self.head = f"sha256:{hashlib.sha256(value).hexdigest()}"
        if self.number == 0:
            self._begin(said)
        elif is_command:
            self._command(said, fields, where)
        else:
            self._decide(said, value, where)
        self.heads.append(self.head)
        if self.number:
            self.decisions.append(said)
        return said

    def finish(self) -> None:
        """Check that no input is undecided.

        Raises: Disagreement.
        """
        for source in INPUTS:
            rest = [sent.offset for sent in self._inputs[source][self._taken[source] :]]
            if rest:
                said = f"{len(rest)} of {source} undecided: {rest[:5]}"
                raise Disagreement("inputs", said, f"0 of {source} undecided", self.partition)

    def _begin(self, said: Fields) -> None:
        genesis = said.get("genesis")
        if said.get("outcome") != "genesis" or not isinstance(genesis, dict):
            raise Disagreement("genesis", said.get("outcome"), "genesis", self.partition)
        agree("genesis", genesis["partition"], self.partition)
        self.genesis, self.at = genesis, millis(said["decided_at"])
        times = {"decided_at": at_text(self.at), "floor": at_text(0)}
        fields = {**self._common(said), **times, "outcome": "genesis", "genesis": genesis}
        compare(said, fields, self.partition)

    def _common(self, said: Fields) -> Fields:
        return {
            "type": "decision",
            "version": 2,
            "partition_sequence": self.number,
            "previous": said["previous"],
            "rules": RULES,
        }

    def _command(self, said: Fields, fields: Fields, where: object) -> None:
        """Apply a decision of a command: it has no input, and spends nothing."""
        at, before = millis(said["decided_at"]), self.at
        if said["outcome"] == "clock_reset":
            if at >= before:
                raise Disagreement("clock", at_text(at), f"before {at_text(before)}", where)
            # What lies in whole seconds at or below the floor is forgotten for ever.
            gone = (self.floor + 1) // _SECOND * _SECOND
            self.ids = {key: known for key, known in self.ids.items() if known.issued >= gone}
            self.floor = at + self.genesis["skew_ms"]
            self.resets, self.reset_at = self.resets + 1, at
            for dataset in self.datasets.values():
                dataset.division.end(before, None)
        elif at < before:
            raise Disagreement("clock", at_text(at), f"at or after {at_text(before)}", where)
        self.at = at
        times = {"decided_at": said["decided_at"], "floor": at_text(self.floor)}
        compare(said, {**self._common(said), **times, **fields}, where)

    def _decide(self, said: Fields, value: bytes, where: object) -> None:
        source, sent = self._input_of(said, where)
        self._move_clock(said, sent, where)
        if (source, sent.offset) in self._errors:
            body = Read("internal_error")
        else:
            body = read(source, sent.value)
        fields = self._predicted(said, source, sent, body, where)
        origin = {"topic": source, "partition": self.partition, "offset": sent.offset}
        times = {"decided_at": at_text(self.at), "floor": at_text(self.floor)}
        agree("floor", said.get("floor"), times["floor"], where)
        verdict = {name: fields.pop(name, None) for name in ("outcome", "reason")}
        if said["outcome"] != verdict["outcome"]:
            words = f"{verdict['outcome']} {verdict['reason'] or ''}".strip()
            raise Disagreement("outcome", said["outcome"], words, where)
        agree("reason", said.get("reason"), verdict["reason"], where)
        repeated = request_of(value)
        waited = fields.pop("waited", None)
        if waited is not None:
            # The input is the owner's record, and the request is the one that it waited.
            agree("approval", request_of(value, "approval"), body.text, where)
            agree("request", repeated, waited.body, where)
            fields |= {name: said.get(name) for name in ("request", "approval")}
            verdict_of = verdict["outcome"], verdict["reason"], fields
            waited.first = self._first(said, verdict_of)
        elif body.reason == "internal_error" or body.text is None:
            agree("request", repeated, None, where)
        else:
            agree("request", repeated, body.text, where)
            fields["request"] = said.get("request")
        if verdict["reason"] is not None:
            fields["reason"] = verdict["reason"]
        if "parts" in fields:
            _compare_parts(said, fields, where)
        fields = {"outcome": verdict["outcome"], **fields, "source": origin}
        compare(said, {**self._common(said), **times, **fields}, where)
        if verdict["reason"] in DEAD:
            self.letters.append((source, sent, str(verdict["reason"])))

    def _input_of(self, said: Fields, where: object) -> tuple[str, InputAsSent]:
        """Return the input that a decision must have: the next one of its source."""
        origin = said.get("source")
        if not isinstance(origin, dict) or origin.get("topic") not in INPUTS:
            raise Disagreement("inputs", origin, "the place of an input", where)
        source = origin["topic"]
        waiting = self._inputs[source]
        if self._taken[source] >= len(waiting):
            raise Disagreement("inputs", origin, f"no more of {source}", where)
        sent = waiting[self._taken[source]]
        agree("inputs", origin["offset"], sent.offset, (source, where))
        self._taken[source] += 1
        self.last = sent
        self.next[source] = sent.offset + 1
        return source, sent

    def _move_clock(self, said: Fields, sent: InputAsSent, where: object) -> None:
        least, most = (max(self.at, at) for at in sent.appended)
        at = millis(said.get("decided_at", ""))
        if not least <= at <= most:
            span = f"{at_text(least)} to {at_text(most)}"
            raise Disagreement("clock", said.get("decided_at"), span, where)
        self.at = at

    def _predicted(
        self, said: Fields, source: str, sent: InputAsSent, body: Read, where: object
    ) -> Fields:
        if body.reason is not None:
            error = Holds(f"one of {sorted(body.broken)}", lambda e: names_one(e, body))
            fields: Fields = {"outcome": "invalid", "reason": body.reason}
            return fields if body.reason == "internal_error" else {**fields, "error": error}
        fields = body.fields
        name = fields["dataset"]
        outcome, reason, more = self._verdict(said, source, body, where)
        if reason is not None:
            more = {"reason": reason, **more}
        named = {} if "parts" in more else {"dataset": name}
        return {"outcome": outcome, **named, **more}

    def _verdict(
        self, said: Fields, source: str, body: Read, where: object
    ) -> tuple[str, str | None, Fields]:
        """Return outcome, reason and fields of a sound body, in the order of the documents."""
        fields, name = body.fields, body.fields["dataset"]
        grouped = self.genesis.get("placement") == "group"
        key = name.split("::", 1)[0] if grouped else name
        home = partition_of(key.encode(), self.genesis["partitions"])
        if name not in self.datasets and home != self.partition:
            count = self.genesis["partitions"]
            rule = f"belongs to partition {home} of {count}, not {self.partition}"
            rule += f": the record's key must be {key}" if grouped else ""
            error = {"field": "dataset", "rule": rule, "value": name}
            return "invalid", "wrong_partition", {"error": error}
        if source == "requests":
            self.floor = max(self.floor, self.at - self.genesis["window_ms"])
        at = issued(fields["request_id"])
        waiting = self._waiting(source, fields)
        if waiting is not None:
            same = waiting.body == body.text
            first = waiting.first_answer(max(self.at, self.datasets[name].changed_at), self.resets)
            return "repeated" if same else "conflict", None, {"first": first}
        if at <= self.floor:
            return "expired", None, {}
        if at > self.at + self.genesis["skew_ms"]:
            return "invalid", "issued_in_future", {}
        sender = fields["analyst"] if source == "requests" else fields["by"]
        key = source, name, sender, fields["request_id"]
        known = self.ids.get(key)
        if known is not None:
            same = known.body == body.text
            return "repeated" if same else "conflict", None, {"first": known.first}
        if not self._has_room():
            return "refused", "overloaded", {}
        if at <= self.floor:
            return "expired", None, {}
        if name in self.datasets:
            self.datasets[name].body = body.text or b""
            self.datasets[name].place = self.head, self.number
        verdict = self._new(said, source, fields)
        self.ids[key] = RememberedId(at, body.text or b"", self._first(said, verdict))
        return verdict

    def _waiting(self, source: str, fields: Fields) -> Waiting | None:
        """Return the request with an id that waits, or did."""
        dataset = self.datasets.get(fields["dataset"])
        if dataset is None or source != "requests":
            return None
        return dataset.approvals.of_request(fields["analyst"], fields["request_id"])

    def _has_room(self) -> bool:
        """Return whether one more id fits; a full table raises the floor, to whole seconds."""
        if len(self.ids) < self._most_ids:
            return True
        issued = sorted(known.issued for known in self.ids.values() if known.issued > self.floor)
        if len(issued) < self._most_ids:
            return True
        oldest_tenth = issued[-(-len(issued) // 10) - 1]
        to = oldest_tenth // _SECOND * _SECOND + _SECOND - 1
        last_minute = (self.at - 60 * _SECOND + 1) // _SECOND * _SECOND
        self.floor = max(self.floor, min(to, last_minute - 1))
        return sum(each > self.floor for each in issued) < self._most_ids

    def _new(self, said: Fields, source: str, fields: Fields) -> tuple[str, str | None, Fields]:
        name = fields["dataset"]
        names = [name, *fields.get("other_datasets", [])]
        if len(names) > 1:
            apart = next((each for each in names[1:] if not self._is_together(name, each)), None)
            if apart is not None:
                return "refused", "not_together", {"refused_by": apart}
        unknown = next((each for each in names if each not in self.datasets), None)
        if unknown is not None and fields.get("lifetime") is not None and not self._has_groups():
            return "refused", "not_renewable", {}
        if unknown is not None and fields["type"] == "open":
            refused = opening_refusal(
                fields, self.datasets.values(), self.at, partitions=self.genesis["partitions"]
            )
            if refused is not None:
                return "refused", refused, {}
        if unknown is not None and fields["type"] != "open":
            by = {"refused_by": unknown} if len(names) > 1 else {}
            return "refused", "unknown_dataset", by
        if fields["type"] in STEPS:
            names = self._datasets_of(fields)
        if len(names) > 1:
            return self._in_all([self.datasets[each] for each in names], fields, said)
        dataset = self.datasets.get(name)
        outcome, reason, more = "opened", None, {}
        if dataset is None:
            if said.get("outcome") != "opened":
                return outcome, reason, more
            policy = resolved(fields["policy"])
            lifetime = latest_of(self.datasets.values(), policy.get("population"))
            if lifetime is not None:
                lifetime = charge(lifetime, lifetime["spent"], policy, lifetime["first"])
            elif fields.get("lifetime") is not None:
                first = policy["population"] if fields["lifetime"].get("shared") else name
                lifetime = charge(fields["lifetime"], None, policy, first)
            owners = fields.get("owners", [fields["by"]])
            dataset, more = self._open(name, fields["policy"], fields, owners, lifetime, said)
        elif fields["type"] == "renew":
            return self._renew(dataset, fields, said)
        else:
            dataset.begin(self.at)
            if source == "requests":
                place = self.head, self.number
                outcome, reason, more = dataset.asked(fields, said, self.clock, place)
            else:
                outcome, reason, more = dataset.governed(fields, said, self.clock)
        dataset.written = said.get("policy", dataset.written)
        return outcome, reason, {**more, **dataset.counted(self.at)}

    def _open(
        self,
        name: str,
        policy: Fields,
        fields: Fields,
        owners: list[str],
        lifetime: Fields | None,
        said: Fields,
    ) -> tuple[Dataset, Fields]:
        """Open a dataset; return it, and what its opening says of it."""
        dataset = Dataset(name, policy, said.get("budget", {}), self.at)
        self.datasets[name] = dataset
        dataset.members.open(owners)
        more: Fields = {**dataset.terms(), "owners": owners}
        if lifetime is not None:
            dataset.facts["lifetime"] = more["lifetime"] = lifetime
        if fields.get("budget") is not None:
            part = {n: each for n, each in fields["budget"].items() if each is not None}
            more |= dataset.take_in_force(part, said)
        if fields.get("spent") is not None:
            more |= dataset.start_with(fields["spent"], said)
        return dataset, more

    def _renew(self, old: Dataset, fields: Fields, said: Fields) -> tuple[str, str | None, Fields]:
        """Decide a renewal: it closes one dataset and opens another, or changes neither."""
        old.begin(self.at)
        name, policy = fields["renewed_as"], resolved(fields["policy"])
        if old.members.may_govern(fields, self.at):
            is_together = self._is_together(old.name, name)
            reason = renewal_refusal(
                old,
                fields,
                policy,
                self._lifetime_of(old),
                is_open=name in self.datasets,
                is_together=is_together,
            )
        else:
            reason = "not_permitted"
        if reason is not None:
            return "refused", reason, old.counted(self.at)
        if said.get("outcome") != "renewed":
            return "renewed", None, {}
        close(old, self.at)
        old.facts["renewed_as"] = name
        closed = old.counted(self.at)
        before = self._lifetime_of(old)
        assert before is not None
        lifetime = charge(before, before["spent"], policy, before["first"])
        mine = (each for each, row in old.members.all.items() if "owner" in row.roles)
        owners = fields.get("owners") or sorted(mine)
        policy = {**policy, "access": "members"}
        stated = {**said, "in_force": said["parts"][1].get("in_force")}
        new, more = self._open(name, policy, fields, owners, lifetime, stated)
        new.generation = old.generation + 1
        new.written = said["policy"]
        opened = new.counted(self.at)
        if "in_force" in more:
            opened["in_force"] = more.pop("in_force")
        return "renewed", None, {**more, "parts": [closed, opened]}

    def _lifetime_of(self, dataset: Dataset) -> Fields | None:
        """Return a dataset's lifetime as it was last taken from."""
        own: Fields | None = dataset.facts["lifetime"]
        if own is None or not own.get("shared"):
            return own
        return latest_of(self.datasets.values(), dataset.policy.get("population"))

    def _has_groups(self) -> bool:
        """Return whether names can be chosen that lie where a dataset lies."""
        return self.genesis["partitions"] == 1 or self.genesis.get("placement") == "group"

    def _is_together(self, name: str, other: str) -> bool:
        """Return whether two datasets are decided together: by the ledger, or by their group."""
        if self.genesis["partitions"] == 1:
            return True
        groups = {each.split("::", 1)[0] for each in (name, other)}
        return self.genesis.get("placement") == "group" and len(groups) == 1

    def _datasets_of(self, step: Fields) -> list[str]:
        """Return the datasets in which a step is decided."""
        name = step["dataset"]
        dataset = self.datasets[name]
        row = dataset.reservations.open.get(step["grant"])
        if row is None or not row.datasets or row.datasets[0] != name:
            return [name]
        # A row that is final is dropped before the step is decided.
        is_dropped = row.grant in dataset.reservations.dropped_at(self.at)
        return [name] if is_dropped else [*row.datasets]

    def _in_all(
        self, datasets: list[Dataset], fields: Fields, said: Fields
    ) -> tuple[str, str | None, Fields]:
        """Decide a record about several datasets, each of which counts it."""
        for dataset in datasets:
            dataset.begin(self.at)
        if fields["type"] in STEPS:
            outcome, reason, more = step_in_all(datasets, fields, said, self.clock)
        else:
            place = self.head, self.number
            outcome, reason, more = asked_of_all(datasets, fields, said, self.clock, place)
        parts = zip(more["parts"], datasets, strict=True)
        more["parts"] = [{**part, **dataset.counted(self.at)} for part, dataset in parts]
        return outcome, reason, more

    def _first(self, said: Fields, verdict: tuple[str, str | None, Fields]) -> Fields:
        """Return the fields with which a repeat names this decision."""
        first = {
            "partition_sequence": self.number,
            "decided_at": at_text(self.at),
            "outcome": verdict[0],
            "hash": self.head,
        }
        if verdict[1] is not None:
            first["reason"] = verdict[1]
        if "cost" in said:
            first["cost"] = said["cost"]
        return first


def _compare_parts(said: Fields, predicted: Fields, where: object) -> None:
    """Compare what a record says of each dataset; take it over as compared."""
    parts = said.get("parts", [])
    agree("parts", len(parts), len(predicted["parts"]), where)
    for part, right in zip(parts, predicted["parts"], strict=True):
        compare(part, right, (right["dataset"], where))
    predicted["parts"] = parts
