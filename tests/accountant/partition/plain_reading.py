"""The rules of a partition as docs/explanation and docs/reference describe them, slow and plain.

Nothing here is shared with the product but the numbers: what a claim costs, what a filter
admits and leaves, what an odometer reads, how a policy's defaults are filled in, and the words
of an error. State is plain dictionaries, a record is built field by field, each field as text.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import re
import unicodedata
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import msgspec

from accountant.claims import CheckedClaim, Claim
from accountant.claims.price import price
from accountant.errors import RequestInvalid
from accountant.fractional import PARTS, parts_of
from accountant.ledger.largest_fit import largest
from accountant.partition.key_hash import partition_of
from accountant.policy import (
    PARAMETERS,
    check_alerts,
    check_horizon,
    check_ratio,
    guarantee_of,
    resolve,
)
from accountant.policy.compiled_policy import CompiledPolicy, open_plan
from accountant.records import Genesis, decode_policy
from accountant.records.inputs import Undecodable, canonical, check
from tests.faults.oracle.halves import has_room_for_deltas

NAME = r"[A-Za-z0-9][A-Za-z0-9._@:-]{0,99}"
ID = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
LEAD, SPARED = 300_000, 60_000
FIELDS: dict[str, tuple[set[str], set[str]]] = {
    "request": (
        {"analyst", "claim", "unit", "neighbours"},
        {"purpose", "via"},
    ),
    "open": ({"by", "policy"}, {"reason", "owners"}),
    "amend": (
        {"by"},
        {"alert_at", "horizon", "reason", "follows", "most_per_request", "policy"}
        | {"access", "visibility"},
    ),
    "member": ({"by", "member", "roles"}, {"team", "until", "reason", "follows", "as"}),
    "close": ({"by"}, {"reason", "follows"}),
    "pause": ({"by"}, {"reason", "follows", "as"}),
    "resume": ({"by"}, {"reason", "follows", "as"}),
}
"""Of each type: what must be there beside the four of all, and what may be."""


def at_text(at: int) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at % 1000:03d}Z"


def exact(amount: float) -> Any:
    """Return an amount in units, as a fraction where it is finite."""
    return amount if amount == float("inf") else Fraction(parts_of(amount), PARTS)


def ceil(amount: float) -> Any:
    return amount if amount == float("inf") else math.ceil(exact(amount))


def floor(amount: float) -> int:
    return math.floor(exact(amount))


def amount_text(units: float) -> str:
    if units == float("inf"):
        return "inf"
    whole, part = divmod(int(units), 10**40)
    return f"{whole}.{part:040d}".rstrip("0").rstrip(".")


def reading_text(value: float) -> str:
    return "inf" if value == float("inf") else f"{value * (1 + 6e-10):.10g}"


def text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def without_space(body: str) -> str:
    """Return JSON without the white space between its tokens."""
    return "".join(re.findall(r'"(?:[^"\\]|\\.)*"|[^\s"]+', body))


class Bad(Exception):
    """Why a body is none: one of the three reasons."""


def parsed(body: bytes) -> Any:
    def pairs(items: list[tuple[str, object]]) -> dict[str, object]:
        if len({name for name, _ in items}) < len(items):
            raise Bad("undecodable")
        return dict(items)

    def constant(_: str) -> None:
        raise Bad("undecodable")

    def depth(value: object) -> int:
        if isinstance(value, dict):
            value = list(value.values())
        return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 1

    try:
        value = json.loads(body.decode(), object_pairs_hook=pairs, parse_constant=constant)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise Bad("undecodable") from None
    if depth(value) > 16:
        raise Bad("undecodable")
    return value


def is_hidden(character: str) -> bool:
    """Tell whether a character is a control, a line separator or a mark of direction."""
    if unicodedata.category(character) in {"Cc", "Zl", "Zp"}:
        return True
    way = unicodedata.bidirectional(character)
    return way in {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"} or (
        character in "\u061c\u200e\u200f"
    )


def all_texts(value: Any) -> str:
    """Return all the texts within a value, one behind the other."""
    if isinstance(value, dict):
        return "".join(name + all_texts(each) for name, each in value.items())
    if isinstance(value, list):
        return "".join(map(all_texts, value))
    return value if isinstance(value, str) else ""


def repeated_text(body: str) -> str | None:
    """Return an invalid body as the log repeats it; a tab stands between words alone."""
    shown = (f"\\u{ord(each):04x}" if is_hidden(each) and each != "\t" else each for each in body)
    whole = "".join(shown)
    return whole if len(whole.encode()) <= 65_536 else None


def judged(source: str, body: bytes) -> tuple[dict[str, Any], Any]:
    """Return a body's fields, and its claim or policy; each rule of docs/reference/records.md.

    Raises: Bad.
    """
    found = parsed(body)
    bad = Bad("invalid_field")
    if not isinstance(found, dict) or any(map(is_hidden, all_texts(found))):
        raise bad
    kind = found.get("type")
    if kind not in ({"request"} if source == "requests" else FIELDS.keys() - {"request"}):
        raise bad
    needed, allowed = FIELDS[kind]
    needed = needed | {"version", "type", "request_id", "dataset"}
    if not needed <= found.keys() <= needed | allowed or found["version"] != 1:
        raise bad
    if isinstance(found["version"], bool):
        raise bad
    caller = found["analyst"] if kind == "request" else found["by"]
    names = [found["dataset"], caller, *([found["via"]] if "via" in found else [])]
    if not all(isinstance(name, str) and re.fullmatch(NAME, name) for name in names):
        raise bad
    if not isinstance(found["request_id"], str) or not re.fullmatch(ID, found["request_id"]):
        raise bad
    for free in ("purpose", "reason"):
        said = found.get(free, "")
        if not isinstance(said, str) or len(said) > 200:
            raise bad
    try:
        if kind == "request":
            if not isinstance(found["unit"], str):
                raise bad
            if found["neighbours"] not in ("add_remove", "replace"):
                raise bad
            return found, CheckedClaim(msgspec.convert(found["claim"], Claim))
        if kind == "open":
            owners = found.get("owners", [caller])
            if not isinstance(owners, list) or not 1 <= len(owners) <= 100:
                raise bad
            if not all(isinstance(each, str) and re.fullmatch(NAME, each) for each in owners):
                raise bad
            if len(set(owners)) < len(owners):
                raise bad
            return found, open_plan(resolve(decode_policy(text(found["policy"]).encode())))
        if found.get("follows") is not None:
            msgspec.json.decode(text(found["follows"]).encode(), type=int)
        if found.get("as") not in (None, "administrator"):
            raise bad
        if kind == "member":
            return found, enrolment(found, bad)
        if kind == "amend":
            for field, words in (
                ("access", ("members", "anyone")),
                ("visibility", ("own", "members")),
            ):
                if found.get(field) is not None and found[field] not in words:
                    raise bad
            if found.get("most_per_request") is not None:
                ratio = msgspec.convert(found["most_per_request"], str)
                check_ratio(ratio, field="most_per_request")
            if found.get("policy") is not None:
                beside = ("alert_at", "horizon", "most_per_request", "access", "visibility")
                if any(found.get(field) is not None for field in beside):
                    raise bad
                return found, open_plan(resolve(decode_policy(text(found["policy"]).encode())))
            if found.get("alert_at") is not None:
                alerts = msgspec.convert(found["alert_at"], tuple[str, ...])
                check_alerts(alerts, field="alert_at")
            if found.get("horizon") is not None:
                check_horizon(msgspec.convert(found["horizon"], str), field="horizon")
    except (RequestInvalid, msgspec.ValidationError):
        raise bad from None
    return found, None


def enrolment(found: dict[str, Any], bad: Bad) -> dict[str, Any]:
    """Return who gets which roles, as a decision tells it."""
    roles, team, until = found["roles"], found.get("team"), found.get("until")
    known = ("owner", "analyst", "engine", "auditor")
    if not isinstance(roles, list) or any(each not in known for each in roles):
        raise bad
    if len(set(roles)) < len(roles) or found.get("as") not in (None, "administrator"):
        raise bad
    for name in (found["member"], *([] if team is None else [team])):
        if not isinstance(name, str) or re.fullmatch(NAME, name) is None:
            raise bad
    if not roles and (team is not None or until is not None):
        raise bad
    if until is not None:
        if not isinstance(until, str) or "owner" in roles:
            raise bad
        try:
            milliseconds(until)
        except ValueError:
            raise bad from None
    reported = {"member": found["member"], "roles": [each for each in known if each in roles]}
    return reported | {n: v for n, v in (("team", team), ("until", until)) if v is not None}


def milliseconds(until: str) -> int:
    if re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", until) is None:
        raise ValueError(until)
    moment = datetime.strptime(until, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    return round((moment - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(milliseconds=1))


class Plain:
    """One partition, decided by the book.

    Attributes:
        head, sequence, decided_at, floor, next: of the log so far.
        datasets: by name, each a dictionary.
        ids: by (source, dataset, who, id): time of issue, hash of the body, first decision.
    """

    def __init__(self, genesis: Genesis, first: bytes, at: int, most_ids: int) -> None:
        self.genesis = genesis
        self.most_ids = most_ids
        self.head = "sha256:" + hashlib.sha256(first).hexdigest()
        self.sequence = 0
        self.decided_at = at
        self.floor = 0
        self.next = {"requests": 0, "admin": 0}
        self.datasets: dict[str, dict[str, Any]] = {}
        self.ids: dict[tuple[str, str, str, str], tuple[int, bytes, dict[str, Any]]] = {}

    def copy(self) -> Plain:
        twin = copy.copy(self)
        twin.next = dict(self.next)
        twin.datasets = {
            name: each | {"members": dict(each["members"])} for name, each in self.datasets.items()
        }
        twin.ids = dict(self.ids)
        return twin

    def decide(
        self, source: str, offset: int, value: bytes | None, append_time: int, clock: int
    ) -> bytes:
        """Return the bytes of the decision on one input."""
        self.take_up(source, offset, append_time, clock)
        origin = source, offset
        if not value:
            return self.unsound(origin, "undecodable", value, None)
        if len(value) > 65_536:
            return self.unsound(origin, "oversize", value, None)
        try:
            body = value.decode().strip(" \t\r\n")
        except UnicodeDecodeError:
            return self.unsound(origin, "undecodable", value, None)
        try:
            if "\n" in body or "\r" in body:
                parsed_or_not = body.encode()
                msgspec.json.decode(parsed_or_not)
                body = without_space(body)
        except (msgspec.DecodeError, RecursionError):
            return self.unsound(origin, "undecodable", value, None)
        raw = body.encode()
        try:
            found, worth = judged(source, raw)
        except Bad as why:
            return self.unsound(origin, str(why), value, body)
        return self.sound(origin, body, found, worth)

    def internal_error(self, source: str, offset: int, append_time: int, clock: int) -> bytes:
        """Return the bytes of the decision on an input that adjudication raised on."""
        self.take_up(source, offset, append_time, clock)
        return self.record((source, offset), "invalid", {"reason": "internal_error"}, None)

    def take_up(self, source: str, offset: int, append_time: int, clock: int) -> None:
        self.decided_at = max(self.decided_at, min(append_time, clock + LEAD))
        self.next[source] = offset + 1

    def reset_clock(self, at: int, note: str) -> bytes:
        """Return the bytes of a `clock_reset`: the only decision by which the clock falls."""
        # Whole seconds at or below the floor are forgotten, and do not come back with a lower one.
        gone = (self.floor + 1) // 1000 * 1000
        self.ids = {key: each for key, each in self.ids.items() if each[0] >= gone}
        self.decided_at, self.floor = at, at + self.genesis.skew_ms
        return self.record(None, "clock_reset", {"note": note}, None)

    def unsound(
        self, origin: tuple[str, int], reason: str, value: bytes | None, body: str | None
    ) -> bytes:
        """Decide what breaks a rule of the wire; only the words are the product's."""
        try:
            check(origin[0], canonical(value))  # type: ignore[arg-type]
        except Undecodable as error:
            found, reported = str(error.reason), {"field": "body", "rule": str(error), "value": ""}
        except RequestInvalid as error:
            found = "invalid_field"
            reported = {"field": error.field, "rule": error.rule, "value": error.value}
        else:
            raise AssertionError(f"{value!r} is {reason}, and was taken")
        assert found == reason, reported
        repeated = repeated_text(body or "") if reason == "invalid_field" else None
        return self.record(origin, "invalid", {"reason": reason, "error": reported}, repeated)

    def sound(self, origin: tuple[str, int], body: str, found: dict[str, Any], worth: Any) -> bytes:
        source, dataset = origin[0], found["dataset"]
        caller = found["analyst"] if source == "requests" else found["by"]
        ledger = self.datasets.get(dataset)

        def only(outcome: str, **fields: object) -> bytes:
            return self.record(origin, outcome, {**fields, "dataset": dataset}, body)

        grouped = self.genesis.placement == "group"
        key = dataset.split("::", 1)[0] if grouped else dataset
        home = partition_of(key.encode(), self.genesis.partitions)
        if ledger is None and home != self.genesis.partition:
            count, ours = self.genesis.partitions, self.genesis.partition
            rule = f"belongs to partition {home} of {count}, not {ours}"
            rule += f": the record's key must be {key}" if grouped else ""
            error = {"field": "dataset", "rule": rule, "value": dataset}
            return only("invalid", reason="wrong_partition", error=error)
        if source == "requests":
            self.floor = max(self.floor, self.decided_at - self.genesis.window_ms)
        issued = int(found["request_id"].replace("-", "")[:12], 16)
        if issued <= self.floor:
            return only("expired")
        if issued > self.decided_at + self.genesis.skew_ms:
            return only("invalid", reason="issued_in_future")
        key = (source, dataset, caller, found["request_id"])
        digest = hashlib.sha256(body.encode()).digest()
        if key in self.ids and self.ids[key][0] > self.floor:
            _, before, first = self.ids[key]
            return only("repeated" if before == digest else "conflict", first=first)
        if not self.has_room():
            return only("refused", reason="overloaded")
        if issued <= self.floor:
            return only("expired")
        if ledger is None and found["type"] != "open":
            value = only("refused", reason="unknown_dataset")
            outcome, reason, cost = "refused", "unknown_dataset", None
        else:
            outcome, fields = self.ruled(ledger, found, worth)
            value = self.record(origin, outcome, {**fields, "dataset": dataset}, body)
            reason, cost = fields.get("reason"), fields.get("cost")
        first = {
            "partition_sequence": self.sequence,
            "decided_at": at_text(self.decided_at),
            "outcome": outcome,
            "hash": self.head,
            "reason": reason,
            "cost": cost,
        }
        first = {name: each for name, each in first.items() if each is not None}
        self.ids[key] = (issued, digest, first)
        return value

    def has_room(self) -> bool:
        def above() -> list[int]:
            return sorted(issued for issued, _, _ in self.ids.values() if issued > self.floor)

        issued = above()
        if len(issued) < self.most_ids:
            return True
        tenth = next(
            at for i, at in enumerate(issued) if self.oldest(issued, at) * 10 >= len(issued)
        )
        end = tenth // 1000 * 1000 + 999
        spared = (self.decided_at - SPARED + 1) // 1000 * 1000 - 1
        self.floor = max(self.floor, min(end, spared))
        return len(above()) < self.most_ids

    @staticmethod
    def oldest(issued: list[int], at: int) -> int:
        """Return how many were issued in the second of `at` or before."""
        return sum(each // 1000 <= at // 1000 for each in issued)

    def ruled(
        self, ledger: dict[str, Any] | None, found: dict[str, Any], worth: Any
    ) -> tuple[str, dict[str, Any]]:
        """Return the outcome and its fields; the dataset is moved on."""
        kind = found["type"]
        if ledger is None:
            plan: CompiledPolicy = worth
            ledger = self.datasets[found["dataset"]] = {
                "plan": plan,
                "sequence": 0,
                "mechanisms": 0,
                "totals": dict.fromkeys(plan.sums, 0),
                "crossed": 0,
                "exhausted": False,
                "closed": False,
                "paused": False,
                "halted": False,
                "opened_at": self.decided_at,
            }
            owners = found.get("owners", [found["by"]])
            reported = ({"member": name, "roles": ["owner"], "at": 1} for name in owners)
            ledger["members"] = {each["member"]: each for each in reported}
            outcome, fields = "opened", {**self.written(plan), "owners": owners}
        elif kind == "open":
            outcome, fields = "refused", {"reason": "already_opened"}
        elif not self.may(ledger, found):
            outcome, fields = "refused", {"reason": "not_permitted"}
        elif ledger["closed"] and kind != "member":
            outcome, fields = "refused", {"reason": "closed"}
        elif kind != "request" and found.get("follows") not in (None, ledger["sequence"]):
            outcome, fields = "refused", {"reason": "out_of_date"}
        elif kind == "member":
            outcome, fields = self.enrolled(ledger, found, worth)
        elif kind == "amend" and found.get("policy") is not None:
            outcome, fields = self.lowered(ledger, worth)
        elif kind in {"pause", "resume"}:
            outcome, fields = self.braked(ledger, found)
        elif kind == "close":
            ledger["closed"], ledger["paused"] = True, False
            outcome, fields = "closed", {}
        elif kind == "amend":
            outcome, fields = "amended", self.amended(ledger, found)
        else:
            outcome, fields = self.asked(ledger, found, worth)
        ledger["sequence"] += 1
        ledger["changed_at"] = self.decided_at
        return outcome, {**fields, **self.standing(ledger)}

    def has(self, ledger: dict[str, Any], name: str, role: str) -> bool:
        member = ledger["members"].get(name, {"roles": []})
        over = "until" in member and self.decided_at >= milliseconds(member["until"])
        return role in member["roles"] and not over

    def may(self, ledger: dict[str, Any], found: dict[str, Any]) -> bool:
        if found["type"] == "request":
            if "via" in found and not self.has(ledger, found["via"], "engine"):
                return False
            closed_shop = ledger["plan"].policy.access == "members"
            return not closed_shop or self.has(ledger, found["analyst"], "analyst")
        owned = any("owner" in each["roles"] for each in ledger["members"].values())
        helped = found["type"] in {"member", "pause", "resume"} and found.get("as") is not None
        return not owned or helped or self.has(ledger, found["by"], "owner")

    @staticmethod
    def enrolled(
        ledger: dict[str, Any], found: dict[str, Any], reported: dict[str, Any]
    ) -> tuple[str, dict[str, Any]]:
        members, name = ledger["members"], reported["member"]
        after = {each: row for each, row in members.items() if each != name}
        owned = any("owner" in each["roles"] for each in members.values())
        if reported["roles"]:
            after[name] = reported | {"at": ledger["sequence"] + 1}
        elif name not in members:
            return "refused", {"reason": "unknown_member"}
        if owned and not any("owner" in each["roles"] for each in after.values()):
            return "refused", {"reason": "last_owner"}
        ledger["members"] = after
        helped = {"administrator": True} if found.get("as") else {}
        return f"member_{'set' if reported['roles'] else 'removed'}", {"member": reported, **helped}

    @staticmethod
    def braked(ledger: dict[str, Any], found: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        wanted = found["type"] == "pause"
        if ledger["paused"] and wanted:
            return "refused", {"reason": "already_paused"}
        if not ledger["paused"] and not wanted:
            return "refused", {"reason": "not_paused"}
        ledger["paused"] = wanted
        helped = {"administrator": True} if found.get("as") else {}
        return "paused" if wanted else "resumed", helped

    def amended(self, ledger: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
        plan: CompiledPolicy = ledger["plan"]
        changes: dict[str, Any] = {}
        if found.get("alert_at") is not None:
            changes["alert_at"] = tuple(found["alert_at"])
        if found.get("horizon") is not None:
            changes["horizon"] = found["horizon"]
        for field in ("most_per_request", "access", "visibility"):
            if found.get(field) is not None:
                changes[field] = found[field]
        before = plan.policy.alert_at[: ledger["crossed"]]
        plan = CompiledPolicy(msgspec.structs.replace(plan.policy, **changes), plan.capacity)
        ledger["plan"] = plan
        return {**self.first_of_amendment(ledger, before), **self.written(plan)}

    def first_of_amendment(self, ledger: dict[str, Any], before: tuple[str, ...]) -> dict[str, Any]:
        alerts = ledger["plan"].policy.alert_at
        now = (
            len(alerts)
            if ledger["exhausted"]
            else self.reached(ledger["plan"], self.progress(ledger))
        )
        lower = [each for each in alerts if before and Fraction(each) <= Fraction(before[-1])]
        ledger["crossed"] = max(now, len(lower))
        return self.first(ledger, [each for each in alerts[:now] if each not in before])

    def first(self, ledger: dict[str, Any], crossed: list[str]) -> dict[str, Any]:
        """Return what a decision tells of thresholds that it is the first to reach."""
        if not crossed:
            return {}
        part = Fraction(self.progress(ledger)) / int(ledger["plan"].capacity[0])
        ratio = min(1.0, math.nextafter(float(part), 1.0)) if part else 0.0
        return {"crossed": crossed, "spent_ratio": ratio}

    def lowered(self, ledger: dict[str, Any], plan: CompiledPolicy) -> tuple[str, dict[str, Any]]:
        old: CompiledPolicy = ledger["plan"]
        stay = {
            n: getattr(old.policy, n)
            for n in ("access", "visibility", "population")
            if getattr(plan.policy, n) is msgspec.UNSET
        }
        plan = open_plan(resolve(msgspec.structs.replace(plan.policy, **stay)))
        if ledger["mechanisms"] or any(ledger["totals"].values()):
            return "refused", {"reason": "already_granted"}
        was, now = guarantee_of(old.policy), guarantee_of(plan.policy)
        alike = ("filter", "unit", "neighbours", *PARAMETERS)
        if (
            old.policy.population is not msgspec.UNSET
            or any(getattr(old.policy, f) != getattr(plan.policy, f) for f in alike)
            or (now.name, now.amount > was.amount, now.delta > was.delta)
            != (was.name, False, False)
            or any(new > limit for new, limit in zip(plan.capacity, old.capacity, strict=True))
        ):
            return "refused", {"reason": "not_lower"}
        before = old.policy.alert_at[: ledger["crossed"]]
        ledger["plan"], ledger["totals"] = plan, dict.fromkeys(plan.sums, 0)
        return "amended", {**self.first_of_amendment(ledger, before), **self.written(plan)}

    def asked(
        self, ledger: dict[str, Any], found: dict[str, Any], claim: CheckedClaim
    ) -> tuple[str, dict[str, Any]]:
        plan: CompiledPolicy = ledger["plan"]
        policy = plan.policy
        if ledger["paused"]:
            return "refused", {"reason": "paused"}
        if ledger["halted"]:
            return "refused", {"reason": "halted"}
        if found["unit"] != policy.unit or found["neighbours"] != policy.neighbours:
            return "refused", {"reason": "unit_mismatch"}
        if claim.only_for and claim.only_for != policy.neighbours:
            return "refused", {"reason": "claim_not_accepted"}
        worth = price(claim, plan.priced)
        costs = dict(zip(plan.priced, worth.amounts, strict=True))
        spent = tuple(ledger["totals"][name] for name in plan.kind.sums)
        wire = {name: amount_text(cost) for name, cost in costs.items()}
        after = plan.kind.charge(plan.capacity, spent, worth)
        cap = policy.most_per_request
        known = {"filter": policy.filter, "delta_for_claims": policy.delta_for_claims}
        known["delta_ex_post"] = policy.delta_ex_post or "0"
        accepted = plan.kind.accepts(worth) and has_room_for_deltas(known, found["claim"])
        if isinstance(cap, str) and Fraction(cap) < 1 and accepted:
            alone = plan.kind.charge(plan.capacity, (0,) * len(plan.kind.sums), worth)
            share = None if alone is None else plan.kind.progress(plan.capacity, alone)
            if share is None or share > Fraction(policy.most_per_request) * int(plan.capacity[0]):
                fits = largest(claim.claim, plan.search_filter, plan.capacity, spent)
                offer = {} if fits is None else {"fits": fits}
                return "refused", {"reason": "above_cap", "asked": wire, **offer}
        if after is None:
            if not accepted:
                return "refused", {"reason": "claim_not_accepted", "asked": wire}
            return "refused", {"reason": "exhausted", "asked": wire, **self.ended(ledger, claim)}
        totals = dict(zip(plan.kind.sums, after, strict=True))
        for name in plan.sums[len(plan.kind.sums) :]:
            totals[name] = ledger["totals"][name] + costs[name]
        wire = {
            # What the total grows by, each as it is written: rounded up. One that was infinite
            # says what was asked for, where the filter adds that.
            name: amount_text(ceil(each) - ceil(ledger["totals"][name]))
            if each != float("inf")
            else (wire[name] if plan.additive else "inf")
            for name, each in totals.items()
        }
        ledger["totals"] = totals
        ledger["mechanisms"] += claim.mechanisms
        progress = self.progress(ledger)
        before, now = ledger["crossed"], max(ledger["crossed"], self.reached(plan, progress))
        ledger["crossed"] = now
        ledger["exhausted"] = ledger["exhausted"] or progress >= plan.capacity[0]
        return "granted", {"cost": wire, **self.first(ledger, list(policy.alert_at[before:now]))}

    def ended(self, ledger: dict[str, Any], claim: CheckedClaim) -> dict[str, Any]:
        plan: CompiledPolicy = ledger["plan"]
        halts = bool(plan.policy.halt_on_refusal)
        fields: dict[str, Any] = {}
        if halts or self.progress(ledger) * 20 >= -(-plan.capacity[0] * 19 // 20) * 20:
            fields |= self.first(ledger, list(plan.policy.alert_at[ledger["crossed"] :]))
            ledger["exhausted"] = True
            ledger["crossed"] = len(plan.policy.alert_at)
        if halts:
            ledger["halted"] = True
        else:
            spent = tuple(ledger["totals"][name] for name in plan.kind.sums)
            fits = largest(claim.claim, plan.search_filter, plan.capacity, spent)
            if fits is not None:
                fields["fits"] = fits
        return fields

    @staticmethod
    def progress(ledger: dict[str, Any]) -> Any:
        plan: CompiledPolicy = ledger["plan"]
        spent = tuple(ledger["totals"][name] for name in plan.kind.sums)
        return plan.kind.progress(plan.capacity, spent)

    @staticmethod
    def reached(plan: CompiledPolicy, progress: float) -> int:
        return sum(
            progress >= -(-Fraction(ratio) * int(plan.capacity[0]) // 1)
            for ratio in plan.policy.alert_at
        )

    @staticmethod
    def written(plan: CompiledPolicy) -> dict[str, Any]:
        sums = plan.kind.sums
        budget = {n: amount_text(each) for n, each in zip(sums, plan.capacity, strict=True)}
        return {"policy": json.loads(msgspec.json.encode(plan.policy)), "budget": budget}

    @staticmethod
    def standing(ledger: dict[str, Any]) -> dict[str, Any]:
        plan: CompiledPolicy = ledger["plan"]
        totals = ledger["totals"]
        spent = tuple(totals[name] for name in plan.kind.sums)
        left = plan.kind.remaining(plan.capacity, spent)
        over = {n: str(ceil(t) - exact(t)) for n, t in totals.items() if ceil(t) != exact(t)}
        readings = plan.readings(tuple(totals[name] for name in plan.sums))
        return {
            "generation": 1,
            "sequence": ledger["sequence"],
            "totals": {
                "mechanisms": ledger["mechanisms"],
                **{name: amount_text(ceil(each)) for name, each in totals.items()},
            },
            **({"rounded_up": over} if over else {}),
            "left": {
                n: amount_text(floor(each)) for n, each in zip(plan.kind.sums, left, strict=True)
            },
            "odometers": {
                n: reading_text(each) for n, each in zip(plan.reader_names, readings, strict=True)
            },
        }

    def record(
        self,
        origin: tuple[str, int] | None,
        outcome: str,
        fields: dict[str, Any],
        body: str | None,
    ) -> bytes:
        """Return a decision, its fields in the order of the reference, chained to the last."""
        self.sequence += 1
        whole = {
            "type": "decision",
            "version": 2,
            "partition_sequence": self.sequence,
            "previous": self.head,
            "decided_at": at_text(self.decided_at),
            "floor": at_text(self.floor),
            "rules": 1,
            "outcome": outcome,
        }
        order = "reason dataset generation sequence cost asked fits totals rounded_up left "
        order += "odometers crossed spent_ratio first error policy budget"
        whole |= {name: fields[name] for name in order.split() if name in fields}
        pieces = [f"{text(name)}:{text(each)}" for name, each in whole.items()]
        if body is not None:
            pieces.append(f'"request":{body}')
        if origin is not None:
            source = {
                "topic": origin[0],
                "partition": self.genesis.partition,
                "offset": origin[1],
            }
            pieces.append(f'"source":{text(source)}')
        ending = [n for n in ("note", "owners", "member", "administrator") if n in fields]
        pieces += [f"{text(name)}:{text(fields[name])}" for name in ending]
        value = f"{{{','.join(pieces)}}}".encode()
        self.head = "sha256:" + hashlib.sha256(value).hexdigest()
        return value

    def row(self, dataset: str) -> dict[str, Any]:
        """Return a dataset's row of `state`, as plain values."""
        ledger = self.datasets[dataset]
        plan: CompiledPolicy = ledger["plan"]
        standing, written = self.standing(ledger), self.written(plan)
        return {
            "type": "snapshot",
            "version": 2,
            "dataset": dataset,
            "generation": 1,
            "sequence": ledger["sequence"],
            "policy": written["policy"],
            "budget": written["budget"],
            **{n: standing[n] for n in ("totals", "rounded_up", "odometers") if n in standing},
            "crossed": ledger["crossed"],
            "exhausted": ledger["exhausted"],
            "closed": ledger["closed"],
            "opened_at": ledger["opened_at"],
            "changed_at": ledger["changed_at"],
            **({"halted": True} if ledger["halted"] else {}),
            **{n: count for n, count in self.counts(ledger).items() if count},
            **({"paused": True} if ledger["paused"] else {}),
        }

    @staticmethod
    def counts(ledger: dict[str, Any]) -> dict[str, int]:
        rows = ledger["members"].values()
        return {"owners": sum("owner" in each["roles"] for each in rows), "members": len(rows)}

    def member_rows(self) -> dict[str, dict[str, Any]]:
        """Return the rows of members by their keys, as plain values."""
        rows = {}
        for name, ledger in self.datasets.items():
            for each in ledger["members"].values():
                row = {"type": "member", "version": 2, "dataset": name, "member": each["member"]}
                row |= {field: each[field] for field in ("roles", "team") if field in each}
                if "until" in each:
                    row["until"] = milliseconds(each["until"])
                rows[text({"dataset": name, "member": each["member"]})] = row | {
                    "sequence": each["at"]
                }
        return rows
