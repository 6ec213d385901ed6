"""Verify a folder that `accountant evidence` wrote. Needs Python 3.11 and nothing else.

    python3 -I verify.py [FOLDER] --key NAME+ID+BASE64 --ledger ID [--json]

Key and id must come from outside of the folder: whoever makes a folder chooses the key in it.
docs/reference/verifying.md of the program, and verifying-records.md and verifying-answers.md
beside it, describe every byte.

Exit code 0: all checks hold. 1: one does not. 2: the folder or a --key cannot be read. 3: all hold,
but no key or no id was given, the records are not chained, or answers are not signed.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime, timedelta
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

Record = dict[str, Any]
Sums = dict[str, Fraction | None]  # by name, in units of 1e-40; None is infinite
Span = tuple[Fraction, Fraction]  # the least and the most of an amount
Key = tuple[str, bytes, bytes]  # name, id, 32 bytes
UNIT = 10**40


class Wrong(Exception):
    """What was found is not what must be there."""


MALFORMED = (Wrong, ArithmeticError, LookupError, TypeError, ValueError)


def expect(what: str, due: object, found: object, of: str = "") -> None:
    """Check a value; of two objects name the first field in which they differ."""
    if due == found:
        return
    if isinstance(due, dict) and isinstance(found, dict) and due and found:
        name = next(each for each in [*due, *found] if due.get(each) != found.get(each))
        expect(f"{what}.{name}", due.get(name), found.get(name), of)
    if isinstance(due, bool):
        raise Wrong(f"{what}{of}: " + ("this does not hold" if due else "there must be none"))
    amounts = isinstance(due, Fraction) or isinstance(found, Fraction)
    raise Wrong(f"{what}{of} must be {words(due, amounts)}, got {words(found, amounts)}")


def words(value: object, is_amount: bool) -> str:
    """Return a value for people: amounts in units as decimals."""
    if is_amount and isinstance(value, Fraction | int):
        return text(Fraction(value))
    return "nothing" if value in (None, "", {}, []) else str(value)[:200]


def reason(error: Exception) -> str:
    """Return for people what was wrong with a record."""
    if isinstance(error, KeyError):
        return f"field {error.args[0]} is missing, or what it names"
    return str(error) if isinstance(error, Wrong) else f"it has another form: {error}"


def require(is_so: bool, otherwise: str) -> None:
    """Check a statement that has no value to compare."""
    if not is_so:
        raise Wrong(otherwise)


def counted(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}"


def sha256(value: bytes) -> str:
    return "sha256:" + hashlib.sha256(value).hexdigest()


def parse(value: bytes | str) -> Any:
    """Parse JSON; refuse what a second reader might read otherwise."""

    def once(pairs: list[tuple[str, Any]]) -> Record:
        expect("names in an object", len(pairs), len(dict(pairs)))
        return dict(pairs)

    return json.loads(value, object_pairs_hook=once)


# ---- Ed25519: RFC 8032, section 5.1.7, comparing the encoded R (no cofactor) ----

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
Point = tuple[int, int, int]  # X, Y, Z
ZERO = (0, 1, 1)


def add(p: Point, q: Point) -> Point:
    a, b, c = p[2] * q[2] % P, p[0] * q[0] % P, p[1] * q[1] % P
    e, f = D * b * c % P, a * ((p[0] + p[1]) * (q[0] + q[1]) - b - c) % P
    return f * (a * a - e) % P, a * (c + b) * (a * a + e) % P, (a * a - e) * (a * a + e) % P


def multiply(n: int, p: Point) -> Point:
    found: Point = ZERO
    for bit in f"{n:b}":
        found = add(found, found) if bit == "0" else add(add(found, found), p)
    return found


def decode_point(value: bytes) -> Point | None:
    """Return a point; None for bytes that are not the one encoding of a point."""
    y, sign = int.from_bytes(value, "little") & (2**255 - 1), value[31] >> 7
    u, v = (y * y - 1) % P, (D * y * y + 1) % P
    x = u * pow(v, 3, P) * pow(u * pow(v, 7, P), (P - 5) // 8, P) % P
    if v * x * x % P == -u % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if y >= P or v * x * x % P != u or (x == 0 and sign):
        return None
    return (P - x if x % 2 != sign else x), y, 1


def encode_point(p: Point) -> bytes:
    z = pow(p[2], -1, P)
    return (p[1] * z % P | (p[0] * z % P % 2) << 255).to_bytes(32, "little")


BASE = decode_point((4 * pow(5, -1, P) % P).to_bytes(32, "little")) or ZERO


def is_signed(public: bytes, text: bytes, signature: bytes) -> bool:
    a, s = decode_point(public), int.from_bytes(signature[32:], "little")
    if a is None or len(signature) != 64 or s >= L:
        return False
    if encode_point(multiply(8, a)) == encode_point(ZERO):
        return False  # a key of small order: it would have signed every text
    k = int.from_bytes(hashlib.sha512(signature[:32] + public + text).digest(), "little") % L
    return encode_point(add(multiply(s, BASE), multiply(L - k, a))) == signature[:32]


# ---- Keys and signed notes ----


def key_of(text: str) -> Key:
    name, named, encoded = text.strip().split("+", 2)
    value = base64.b64decode(encoded, validate=True)
    found = hashlib.sha256(name.encode() + b"\n" + value).digest()[:4]
    expect(f"key {name[:100]}", (named, 1, 33), (found.hex(), value[0], len(value)))
    return name, found, value[1:]


def key_text(key: Key) -> str:
    return f"{key[0]}+{key[1].hex()}+{base64.b64encode(bytes([1]) + key[2]).decode()}"


def open_note(note: bytes, keys: Iterable[Key]) -> tuple[list[str], Key]:
    """Return the lines of a text that one of the keys has signed, and that key."""
    signed, _, signatures = note.decode().partition("\n\n")
    for line in signatures.split("\n")[:-1]:
        found = re.fullmatch(r"— (\S{1,100}) ([A-Za-z0-9+/]{88,100}={0,2})", line)
        value = base64.b64decode(found[2], validate=True) if found else b""
        for key in keys:
            named = found is not None and key[:2] == (found[1], value[:4])
            if named and is_signed(key[2], (signed + "\n").encode(), value[4:]):
                return signed.split("\n"), key
    raise Wrong("no known key has signed it")


def number(text: str, before: str = "") -> int:
    """Return a number of a note, which has one form."""
    if re.fullmatch(re.escape(before) + "(0|[1-9][0-9]{0,18})", text) is None:
        raise Wrong(f"{text[:60]} must be {before}and a number")
    return int(text.removeprefix(before))


# ---- Amounts, and what a claim costs ----


def units(amount: str) -> Fraction:
    expect(f"{amount[:60]}, an amount", True, bool(re.fullmatch(r"[0-9]+(\.[0-9]{1,40})?", amount)))
    return Fraction(amount) * UNIT


def text(amount: Fraction) -> str:
    """Return a decimal of an amount in units, with enough digits to show a difference."""
    with localcontext(Context(prec=60)):
        digits = f"{Decimal(amount.numerator) / Decimal(amount.denominator) / UNIT:.45f}"
    return digits.rstrip("0").rstrip(".")


def exact(totals: Record, over: Record | None = None) -> Sums:
    """Return totals as they are before they are rounded up to a unit."""
    parts = {name: Fraction(part) for name, part in (over or {}).items()}
    if any(not 0 < each < 1 for each in parts.values()) or parts.keys() - totals.keys():
        raise Wrong("rounded_up must have parts of a unit, of the sums that there are")
    names = [name for name in totals if name != "mechanisms"]
    return {n: None if totals[n] == "inf" else units(totals[n]) - parts.get(n, 0) for n in names}


def up(totals: Sums) -> Sums:
    return {n: None if a is None else Fraction(math.ceil(a)) for n, a in totals.items()}


def less(after: Sums, before: Sums) -> Sums:
    """Return by how much each sum has grown; None where that is not known."""
    pairs = {n: (after[n], before.get(n, Fraction(0))) for n in after}
    return {n: None if a is None or b is None else a - b for n, (a, b) in pairs.items()}


PARTS = (math.lcm(*range(1, 100)) // (2**6 * 5**2)) ** 2  # of a unit: these the ledger adds exactly
PURE = ("pure", "laplace")  # their rho is a series
RHO: dict[str, Callable[[Record], Fraction]] = {
    "zcdp": lambda of: of["rho"],
    "bounded_range": lambda of: of["epsilon"] ** 2 / 8,
    "gdp": lambda of: of["mu"] ** 2 / 2,
    "gaussian": lambda of: of["sensitivity"] ** 2 / (2 * of["sigma"] ** 2),
    "brownian": lambda of: (
        of["sensitivity"] ** 2
        / 2
        * (1 / of["variance"] - (1 / of["previous"] if "previous" in of else 0))
    ),
    "laplace": lambda of: series(of["epsilon"], lambda x: x + (-x).exp() - 1),
    "pure": lambda of: series(of["epsilon"], lambda x: x * (x.exp() - 1) / (x.exp() + 1)),
}
NUMBERS = ("epsilon", "rho", "mu", "sigma", "scale", "sensitivity", "variance", "previous")


def series(value: Fraction, function: Callable[[Decimal], Decimal]) -> Fraction:
    """Return a lower bound of a function, to 50 digits."""
    with localcontext(Context(prec=150)):
        found = function(Decimal(value.numerator) / Decimal(value.denominator))
    return Fraction(found) * (1 - Fraction(1, 10**50))


def cost(name: str, claim: Record) -> Fraction | None:
    """Return the least that one mechanism costs in a sum; None if this file does not know."""
    kind, name = claim["type"], name.removeprefix("apart_")
    if kind == "interactive":
        return cost(name, claim["claim"])
    if kind not in RHO or name == "ex_post_only":
        return None
    if name.endswith("delta") or name == "loss_shift" or "ex_post" in name:
        return Fraction(0)
    of = {n: Fraction(claim[n]) for n in NUMBERS if n in claim}
    if kind == "bounded_range":
        of["epsilon"] = Fraction(claim["eta"])
    if kind == "laplace":
        of["epsilon"] = of["sensitivity"] / of["scale"]
    if name in ("epsilon", "loss_epsilon"):
        return of.get("epsilon")
    times = {"rho": 1, "loss_time": 2}.get(name)
    return None if times is None else RHO[kind](of) * times


def atoms(claim: Record, times: int = 1) -> Iterator[tuple[Record, int]]:
    if claim["type"] == "repeat":
        yield from atoms(claim["claim"], times * int(claim["times"]))
    elif claim["type"] == "all_of":
        for each in claim["claims"]:
            yield from atoms(each, times)
    else:
        yield claim, times


def costs(name: str, claim: Record) -> Span | None:
    """Return the least and the most, by rounding, that a claim costs; None if not known here."""
    least, most = Fraction(0), Fraction(0)
    for atom, times in atoms(claim):
        one = cost(name, atom)
        if one is None:
            return None
        least, more = least + one * UNIT * times, one * UNIT * times
        by_series = atom["type"] in PURE and "epsilon" not in name
        if one and (by_series or PARTS % (one * UNIT).denominator):  # it was rounded up
            more += more / 10**18 + 2 * times
        most += more
    return least, most


def lacks_epsilon(claim: Record) -> bool | None:
    """Tell whether some mechanism of a claim has no epsilon; None if not known here."""
    kinds = [str(atom.get("claim", atom)["type"]) for atom, _ in atoms(claim)]
    return None if set(kinds) - RHO.keys() else bool(set(kinds) - {*PURE, "bounded_range"})


def is_cost(what: str, name: str, known: Span | None, charged: Fraction | None) -> bool:
    """Check a charge: it is the cost, or above it by the rounding. False: not known here."""
    if charged is None or known is None:
        return False
    least, most = known
    if not least <= charged <= most:
        raise Wrong(f"{what} costs {text(least)} of {name}, charged was {text(charged)}")
    return True


def own_sums(budget: Record) -> list[str]:
    """Return the sums that a filter alone limits, where basic composition stands beside it."""
    return [name for name in budget if name != "epsilon" and not name.endswith("delta")]


def span(budget: Record, total: str, claim: Record, after: Sums) -> Span | None:
    """Return the least and the most that a grant adds to a total; None if not known here.

    With basic composition beside the filter, totals say which of both has ended.
    """
    lacks = lacks_epsilon(claim)
    if "filter_ended" in after and total == "without_epsilon" and lacks is not None:
        return (Fraction(UNIT * lacks), Fraction(UNIT * lacks))
    has_ended = total in own_sums(budget) and after.get("filter_ended")
    if "filter_ended" in after and (has_ended or (total == "epsilon" and lacks)):
        return (Fraction(0), Fraction(0))
    return costs(total, claim)


def admit(budget: Record, totals: Sums, limit: Callable[[str], Fraction]) -> tuple[bool, bool]:
    """Tell whether the filter, and basic composition beside it, admit totals within limits."""
    after, beside, own = up(totals), "filter_ended" in totals, own_sums(budget)
    fits = {n: (amount := after[n]) is not None and amount <= limit(n) for n in budget}
    by_filter = all(fits[n] for n in budget if n != "epsilon" or not beside)
    by_basic = beside and all(fits[n] for n in budget if n not in own)
    return (
        by_filter and not after.get("filter_ended"),
        by_basic and not after.get("without_epsilon"),
    )


def is_budget(policy: Record, budget: Record) -> bool:
    """Check that a budget is what the policy's guarantee allows. False: not known here."""
    kind, delta = policy.get("filter", "zcdp_tight"), Fraction(policy.get("delta") or 0)
    own = policy.get("delta_for_claims")
    claims = Fraction(own) if own is not None else delta * (kind != "zcdp_tight")
    if kind not in ("basic", "zcdp", "zcdp_tight"):
        return False
    if policy.get("beside"):
        expect("budget of epsilon", Fraction(policy["epsilon"]) * UNIT, units(budget["epsilon"]))
    expect("budget of delta", claims * UNIT, units(budget["delta"]))
    if kind != "zcdp_tight":
        first = "epsilon" if kind == "basic" else "rho"
        expect(f"budget of {first}", Fraction(policy[first]) * UNIT, units(budget[first]))
        return True
    rho, epsilon, rest = Decimal(budget["rho"]), Decimal(policy["epsilon"]), delta - claims

    def log_delta(t: Decimal) -> Decimal:  # e^((a-1)(a rho-epsilon)) (1-1/a)^a/(a-1), a = 1 + e^t
        a = 1 + t.exp()
        return (a - 1) * (a * rho - epsilon) + a * (1 - 1 / a).ln() - t

    with localcontext(Context(prec=60)):
        low, high = Decimal(-60), Decimal(60)
        for _ in range(160):  # it is convex in a
            left, right = low + (high - low) / 3, high - (high - low) / 3
            low, high = (low, right) if log_delta(left) < log_delta(right) else (left, high)
        off = log_delta(low) - (Decimal(rest.numerator) / Decimal(rest.denominator)).ln()
    if abs(off) > Decimal("1e-9"):
        raise Wrong(f"a budget of rho {rho} is not that of {epsilon}, {rest} (off by e^{off:.3g})")
    return True


# ---- The log: each record against the one before it ----

ADDITIVE = ("basic", "zcdp", "zcdp_tight", "ex_post", "split", "fully_adaptive", "unified_brownian")
GRANTS, STEPS = ("granted", "reserved"), ("begun", "settled", "voided")
OUTCOMES = {
    *(*GRANTS, *STEPS, "resolved", "genesis", "opened", "amended", "closed", "paused", "resumed"),
    *("member_set", "member_removed", "limit_set", "limit_removed", "label_set", "label_removed"),
    *("budget_set", "remarked", "renewed", "recorded", "member_paused", "member_resumed"),
    *("pending", "more_asked", "more_declined"),
    *("refused", "repeated", "conflict", "expired", "invalid"),
    *("clock_reset", "sealed", "rolled_back", "key_changed"),
}
BUDGETS = ("budget", "pace", "reserved")
AS_DECIDED = ("generation", "sequence", "totals", "rounded_up", "left", "odometers", "guarantee")
HALVES = ("without_epsilon", "filter_ended")  # basic composition has ended, or the filter has
GUARANTEES = ("", "explained", "if_bounded", "void")  # from best to worst
KIND = ("filter", "beside", "order", "orders", "weights", "epsilon_each")
POLICY = ("filter", "epsilon", "rho", "delta", "unit", "neighbours", "beside", "population")
LIMITED = (("totals", "rounded_up"), ("paced", "paced_rounded_up"), ("used", "used_rounded_up"))


class Dataset:
    """A dataset, its limits and their counts, by scope, name, and analyst of a default."""

    def __init__(self, opening: Record, partition: int) -> None:
        self.policy, self.budget = opening["policy"], opening["budget"]
        self.in_force: Record | None = None
        self.lifetime: Record = opening.get("lifetime") or {}
        self.generation = opening["generation"]
        self.request, self.opened_at = opening.get("request") or {}, opening["decided_at"]
        self.partition, self.opened = partition, opening["partition_sequence"]
        self.schema, self.label, self.renewed_as = self.request.get("schema"), "", ""
        self.sequence, self.mechanisms, self.stopped, self.last = 0, 0, "", Record()
        self.granted_at: str | None = None
        self.closed_at: str | None = None
        self.is_bounded, self.is_void = False, False  # by a release that was made elsewhere
        self.worst, self.is_resolved = 0, False  # place of its guarantee, and whether it may fall
        self.totals: Sums = dict.fromkeys(exact(opening["totals"]), Fraction(0))
        self.teams: dict[str, Record] = {}
        self.pauses: dict[tuple[str | None, str | None], Record] = {}  # by person and team
        self.limits: dict[tuple[str, str | None], Record] = {}
        self.counts: dict[tuple[str, str | None, str | None], dict[str, Sums]] = {}
        self.windows: dict[tuple[str, str | None, str | None], int | None] = {}

    def end(self, at: str) -> None:
        """End the limits that are over by a time: for good, also if the clock is set back."""
        for key, limit in self.limits.items():
            if limit.get("until", "~") <= at and "over" not in limit:
                self.limits[key] = limit | {"over": True}
                self.counts.get((*key, None), {}).pop("used", None)

    def allowed(self, total: str) -> Fraction:
        """Return what a total may reach now, in units."""
        return min(map(units, self.budgets(total)))

    def budgets(self, total: str) -> list[str]:
        """Return what a total may reach, by the policy and by the budget in force."""
        found = [self.budget, *([self.in_force["budget"]] if self.in_force else [])]
        return [each[total] for each in found]

    def pauses_of(self, request: Record) -> list[Record]:
        """Return the pauses of who sends a request or a `begin`: of their names and teams."""
        names = [name for name in (request.get("analyst"), request.get("via")) if name]
        teams = [self.teams.get(name, {}).get("team") for name in names]
        keys = [*((name, None) for name in names), *((None, team) for team in teams)]
        return [self.pauses[key] for key in keys if key in self.pauses]

    @property
    def of_all(self) -> tuple[bool, str]:
        """What all datasets of its lifetime have in common, and no other dataset has."""
        return bool(self.lifetime.get("shared")), self.lifetime.get("first", "")

    def at_most(self, claim: Record) -> Sums | None:
        """Return the most that totals with a budget may be after a charge; None if not known."""
        before = {n: a for n, a in self.totals.items() if n in (*self.budget, *HALVES)}
        found = {n: span(self.budget, n, claim, before) for n in before if n != "filter_ended"}
        if not adds_up(self.policy) or None in found.values():
            return None
        return before | {n: (before[n] or 0) + each[1] for n, each in found.items() if each}

    def of_policy(self, total: str) -> Fraction:
        """Return what a total may reach by the policy, in units."""
        return units(self.budget[total])

    def shown(self) -> Record:
        """Return what `datasets.jsonl` must show of it, after its last decision."""
        last, policy, stopped = self.last, self.policy, self.stopped
        held, dated = last.get("held") or {"count": 0}, "population" in policy
        is_closed, is_open = stopped in ("closed", "renewed"), held["count"] > 0
        horizon, found = policy.get("horizon"), {n: last.get(n) for n in AS_DECIDED}
        if horizon is not None:
            ends = datetime.fromisoformat(self.opened_at) + timedelta(days=int(horizon[1:-1]))
            horizon = ends.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return found | {
            "policy": policy,
            "budget": {n: min(self.budgets(n), key=units) for n in self.budget},
            "ceiling": self.budget if self.in_force else None,
            "in_force": self.in_force,
            "closed": is_closed,
            "paused": stopped == "paused",
            "opened_at": self.opened_at,
            "last_decided_at": last["decided_at"],
            "horizon_ends_at": horizon,
            "granted_at": self.granted_at if dated else None,
            "closed_at": self.closed_at if dated and is_closed else None,
            "reserved": held["totals"] if is_open else None,
            "open_reservations": held["count"],
            "broken": held.get("broken", 0) if is_open else 0,
            "recorded": self.is_bounded or self.is_void,
            "over_budget": self.is_void,
            "person_pauses": [*self.pauses.values()],
            "label": self.label,
            "renewed_as": self.renewed_as,
            "schema": self.schema,
            "spent": self.request.get("spent"),
        }


def of_renewal(part: Record) -> Record:
    """Return what a record is for a dataset: a renewal closes the first one, and opens another."""
    if part["outcome"] != "renewed":
        return part
    if part["sequence"] == 1:
        return {**part, "outcome": "opened"}
    return {n: each for n, each in part.items() if n not in ("policy", "budget", "lifetime")}


def adds_up(policy: Record) -> bool:
    return policy.get("filter", "zcdp_tight") in ADDITIVE


class Log:
    """What is known after the records taken so far.

    Attributes:
        needs: what only `accountant audit` checks, with how often.
        hashes: of each partition, by number; "" of records in an archive.
        grants: by the hash of their decision.
        waiting: requests that wait for an owner's approval, by the hash of their decision.
        commands: branch and record of what commands wrote, by partition.
    """

    def __init__(self) -> None:
        self.needs: Counter[str] = Counter()
        self.datasets: dict[str, Dataset] = {}
        self.grants: dict[str, Record] = {}
        self.waiting: dict[str, Record] = {}
        self.hashes: dict[int, list[str]] = {}
        self.commands: dict[int, list[tuple[int, Record]]] = {}
        self.genesis: Record = {}
        self.branch, self.at, self.cut, self.is_cut = 0, "", 0, False
        self.begun: dict[int, int] = {}  # how often each partition's answers began again
        self.signed: dict[int, int] = {}  # how many records the newest checkpoint covers
        self.answers, self.covered = Counter[int](), Counter[int]()  # how many, and by a head
        self.shared: dict[str, Record] = {}  # lifetimes of populations, as last taken from
        self.outside = list[str]()  # what else is not proved

    def take(self, line: bytes) -> None:
        """Check a record's place in the chain, then what it says."""
        record = parse(line)
        genesis, place = record.get("genesis"), record["partition_sequence"]
        if genesis is not None:
            self.end()
            for name in ("ledger", "application", "partitions") if self.genesis else ():
                expect(f"genesis.{name}", self.genesis.get(name), genesis.get(name))
            expect("genesis records of the partition", False, genesis["partition"] in self.hashes)
            self.genesis, self.branch, self.at, self.cut = genesis, 0, "", 0
            self.hashes[genesis["partition"]], self.commands[genesis["partition"]] = [], []
        hashes, own = self.hashes[self.genesis["partition"]], self.genesis["partition"]
        if len(hashes) == 1 and place > 1:  # records before it are in archives: a seal must say so
            hashes += [""] * (place - 2) + [record["previous"]]
            self.cut, self.is_cut = place - 1, True
        found = place, record.get("source", {}).get("partition", own)
        expect("partition_sequence and source.partition", (len(hashes), own), found)
        expect("previous", hashes[-1] if hashes else "sha256:" + "0" * 64, record["previous"])
        expect("decided_at", record["outcome"] == "clock_reset", record["decided_at"] < self.at)
        for data in self.datasets.values() if record["outcome"] == "clock_reset" else ():
            data.end(self.at if data.partition == own else "")
        self.at = record["decided_at"]
        hashes.append(sha256(line))
        self.decision(record, hashes[-1])

    def branch_of(self, partition: int) -> int:
        """Return the number of rollbacks that a partition has accepted."""
        return self.commands[partition][-1][0] if self.commands[partition] else 0

    def end(self) -> None:
        expect("records in archives, without a seal that says so,", 0, self.cut)

    def decision(self, record: Record, digest: str) -> None:
        """Check what a record says, whether or not it is in a chain."""
        head = [record[name] for name in ("type", "version", "rules")]
        expect("type, version and rules", ["decision", 2, 1], head)
        expect("outcome", True, record["outcome"] in OUTCOMES)
        request, partition = record.get("request"), self.genesis.get("partition", 0)
        request = request if isinstance(request, dict) and record["outcome"] != "invalid" else {}
        self.approval(record, request, digest)
        if "note" in record:  # a command wrote it
            found = record.keys() & {"totals", "cost", "levels", "dataset", "parts", "request"}
            expect("fields of a command's record", set(), found)
            self.branch = record.get("rollback", {}).get("branch", self.branch)
            if (seal := record.get("seal")) is not None:
                hashes = self.hashes[partition]
                known = hashes[0], hashes[seal["archived"]] or seal["head"]
                expect("seal", known, (seal["first"], seal["head"]))
                self.cut = 0 if seal["archived"] == self.cut else self.cut
            self.commands[partition].append((self.branch, record))
            return
        if record["outcome"] in GRANTS:
            claim = record.get("derived", request)["claim"]
            self.grants[digest] = {"claim": claim, "request": request, "charged": {}, "stage": ""}
            names = [request["dataset"], *request.get("other_datasets", ())]
            charged = [part["dataset"] for part in record.get("parts") or [record]]
            if "part_of" not in record:
                expect("datasets that are charged", names, charged)
        grant = self.grants.get(request.get("grant", digest), {})
        if record["outcome"] in STEPS:
            expect("a step's grant in the log", True, bool(grant) or self.is_cut)
        for part in record.get("parts") or [record]:
            if "sequence" in part:
                self.numbered(of_renewal({**record, **part}), request, grant)
            else:
                expect("amounts", set(), part.keys() & {"totals", "cost", "levels"})
        if record["outcome"] in STEPS:
            due = "begun" if record["outcome"] == "settled" else ""
            expect("stage", due, grant.get("stage", due))
            grant |= {"stage": record["outcome"], "shown": request.get("shown")}

    def approval(self, record: Record, request: Record, digest: str) -> None:
        """Check when a request waits, and that an owner answers it once, in time, as it is."""
        outcome, said = record["outcome"], record.get("pending") or Record()
        own = self.genesis.get("partition", 0)
        if outcome == "clock_reset":  # what waits has lapsed, for ever
            self.waiting = {n: w for n, w in self.waiting.items() if w["partition"] != own}
        if outcome == "pending":
            expect("pending.analyst", request["analyst"], said["analyst"])
            expect("approval", None, record.get("approval"))
            self.waiting[digest] = {"request": request, "until": said["until"], "partition": own}
        elif said or "approval" in record:
            answer, waited = record["approval"], self.waiting.pop(said["request"], None)
            require(waited is not None or self.is_cut, f"{said['request']} does not wait")
            due = answer["dataset"], answer["pending"], answer["by"]
            expect("pending", due, (record["dataset"], said["request"], said["by"]))
            if answer["type"] == "approve":
                expect("outcome of an approval", True, outcome in GRANTS)
                own_names = request["analyst"], request.get("via")
                require(answer["by"] not in own_names, f"{answer['by']} approves their own request")
            else:
                said_so = outcome, record.get("reason")
                expect("outcome of a denial", ("refused", "denied"), said_so)
            if waited is not None:
                expect("request that waited", waited["request"], request)
                expect("pending.until", waited["until"], said["until"])
            require(record["decided_at"] < said["until"], "an answer after the deadline")

    def without_approval(self, data: Dataset, claim: Record) -> None:
        """Check a grant that nobody approved: alone it takes no more than needs no approval."""
        above, names = data.policy.get("approve_above", "1"), [*data.budget][:1]
        if Fraction(above) == 1:
            return
        names += ["epsilon"] if "beside" in data.policy and not lacks_epsilon(claim) else []
        adds = adds_up(data.policy) and data.policy["filter"] != "split"
        found = [costs(n, claim) for n in names] if adds else [None]
        parts = [each[0] / data.allowed(n) for n, each in zip(names, found, strict=True) if each]
        self.known(None not in found, "whether a grant needed an approval")
        slack = 1 + Fraction(1, 10**9)
        is_small = None in found or min(parts) <= Fraction(above) * slack
        require(is_small, f"a grant above {above} of the budget, which no owner approved")

    def lifetime(self, part: Record, request: Record) -> None:
        """Check what a dataset takes of its lifetime: all that its policy guarantees."""
        generation, before = 1, request.get("lifetime") or Record()
        lifetime, people = part.get("lifetime") or Record(), part["policy"].get("population")
        latest, first = self.shared.get(people), people if before.get("shared") else part["dataset"]
        if before.get("shared"):
            earlier = [each.policy.get("population") for each in self.datasets.values()]
            expect("earlier datasets of the population", 0, earlier.count(people))
        if request["type"] == "renew":
            old = self.datasets.get(request["dataset"])
            if old is None:
                self.needs["datasets that were opened in an archive"] += 1
                return
            generation, before = old.generation + 1, old.lifetime
        elif latest:
            expect("lifetime of its own", {}, before)
        if lifetime.get("shared"):
            self.shared[people] = lifetime
            joins, is_here = not before or "spent" in before, latest or not self.is_cut
            if joins and not (self.hashes and is_here):
                self.needs["lifetimes of which not all datasets are here"] += 1
                return
        before = latest or before
        expect("generation", generation, part["generation"])
        given = {name: each for name, each in before.items() if each is not None}
        due = {"delta": "0", "first": first, **given} if given else {}
        found = {"delta": "0", **lifetime} if lifetime else {}
        expect("lifetime", due | {"spent": 0}, found | {"spent": 0})
        for name, spent in lifetime.get("spent", {}).items():
            own = part["policy"].get(name), part["policy"].get(f"{name}_ex_post")
            total = sum(Fraction(each or 0) for each in (*own, given.get("spent", {}).get(name)))
            expect(f"lifetime.spent.{name}", math.ceil(total * UNIT), units(spent))
            whole, taken = found[name], text(Fraction(total * UNIT))
            why = f"the lifetime has {name} {whole}, and {taken} is taken from it"
            require(total <= Fraction(found[name]), why)

    def below_ceiling(self, data: Dataset, request: Record, in_force: Record | None) -> None:
        """Check a budget in force: the one asked for, and what a policy with it allows."""
        asked = {name: each for name, each in (request.get("budget") or {}).items() if each}
        stated = {name: each for name, each in (in_force or {}).items() if name != "budget"}
        expect("in_force", asked, stated)
        if in_force is None:
            return
        for name, amount in asked.items():
            most, budget = data.policy[name], in_force["budget"]
            require(Fraction(amount) <= Fraction(most), f"{name} {amount} in force exceeds {most}")
            expect("names of in_force.budget", [*data.budget], [*budget])
            for total, each in budget.items():
                why = f"in_force.budget.{total} {each} exceeds {data.budget[total]}, its ceiling"
                require(units(each) <= data.of_policy(total), why)
        known = is_budget({**data.policy, **asked}, in_force["budget"])
        self.known(known, f"budget of {data.policy['filter']}")
        data.in_force = in_force

    def numbered(self, part: Record, request: Record, grant: Record) -> None:
        """Check a decision that its dataset counts: sums, budget, limits."""
        name, outcome = part["dataset"], part["outcome"]
        if outcome == "opened":
            expect("earlier opening", None, self.datasets.get(name))
            self.lifetime(part, request)
            self.datasets[name] = Dataset(part, self.genesis.get("partition", 0))
        if name not in self.datasets and self.is_cut:
            self.needs["datasets that were opened in an archive"] += 1
            return
        require(name in self.datasets, f"dataset {name} was never opened")
        data, after = self.datasets[name], exact(part["totals"], part.get("rounded_up"))
        data.end(part["decided_at"])
        place = [part["generation"], part["sequence"]]
        expect(f"sequence of {name}", [data.generation, data.sequence + 1], place)
        if outcome == "renewed":
            expect(f"a second renewal of {name}", False, data.stopped == "renewed")
        up_now, up_before = up(after), up(data.totals)
        if "policy" in part:
            for total in part["budget"] if outcome != "opened" else ():
                is_lower = units(part["budget"][total]) <= data.of_policy(total)
                require(is_lower, f"the budget of {total} of {name} rises")
            if not data.mechanisms and not any(data.totals.values()):  # it may still be lowered
                data.totals, data.budget = dict.fromkeys(after, Fraction(0)), part["budget"]
            data.policy = part["policy"]
            self.known(is_budget(data.policy, part["budget"]), f"budget of {data.policy['filter']}")
            asked = request.get("policy", {}) if outcome == "opened" else {}
            for field in [each for each in POLICY if each in asked]:
                expect(f"policy.{field}", asked[field], data.policy.get(field))
            expect("budget", data.budget, part["budget"])
        if outcome in ("opened", "budget_set"):
            self.below_ceiling(data, request, part.get("in_force"))
        elif "in_force" in part:
            expect("in_force", data.in_force, part["in_force"])
        expect("names of totals", [*data.totals], [*dict.fromkeys([*after, *part.get("cost", ())])])
        growth, charged = less(after, data.totals), part.get("cost", {})
        ended = growth.get("filter_ended", 0)
        require(
            ended == 0 or (ended == UNIT and bool(charged)), "filter_ended is 0, then 1 for ever"
        )
        of = grant if outcome in GRANTS else request if charged else {}
        of = request.get("spent", {}) if outcome == "opened" else of
        claim: Record = of.get("claim", {})
        more = sum(times for _, times in atoms(claim)) if claim else 0
        expect("mechanisms", data.mechanisms + more, part["totals"]["mechanisms"])
        for total, grown in growth.items() if claim else ():
            what = f"cost of a claim {claim['type']} under {data.policy['filter']}"
            known = span(data.budget, total, claim, after) if adds_up(data.policy) else None
            self.known(total == "filter_ended" or is_cost(name, total, known, grown), what)
        if outcome in GRANTS or (outcome == "opened" and claim):
            self.fits(data, claim, after, is_grant=outcome in GRANTS)
        if outcome in GRANTS:
            require(not data.stopped, f"a grant after a stop: {name} is {data.stopped}")
            for field in ("unit", "neighbours") if "claim" in request else ():
                expect(f"{field} of the claim", data.policy[field], request.get(field))
            if "approval" not in part:
                self.without_approval(data, claim)
            grant["charged"][name] = growth
            self.charge(data, part, grant, growth)
        elif outcome in STEPS:
            back = part["reservation"].get("returned", {})
            charged = {total: f"-{amount}" for total, amount in back.items()}
            if grant:
                expect("analyst", grant["request"]["analyst"], part["reservation"]["analyst"])
                self.give_back(data, part, request, grant, growth)
        elif outcome == "recorded":
            self.record(data, part, request, up_now)
        elif outcome != "resolved" and not (outcome == "opened" and of):
            expect(f"growth of totals of {name}", False, any(growth.values()))
        for total, grown in less(up_now, up_before).items():
            if grown is not None and charged.get(total) != "inf":
                expect(f"growth of {total}", Fraction(charged.get(total, 0)) * UNIT, grown)
        for total in data.budget if adds_up(data.policy) else ():
            left, spent = units(part["left"][total]), up_now[total]
            due = None if spent is None else max(Fraction(0), data.allowed(total) - spent)
            has_ended = total in own_sums(data.budget) and after.get("filter_ended")
            if has_ended or (total == "epsilon" and after.get("without_epsilon")):
                due = Fraction(0)  # that half of filter and basic composition grants no more
            expect(f"{total} left of {name}", due, left)
        expect("names of left", [*data.budget], [*part["left"]])
        what = f"whether {data.policy['filter']} admits the totals, and what is left"
        self.known(adds_up(data.policy), what)
        self.guarantee(data, part, request)
        data.sequence, data.totals, data.last = part["sequence"], after, part
        data.mechanisms = part["totals"]["mechanisms"]
        if "cost" in part:
            data.granted_at = data.granted_at or part["decided_at"]
        if outcome in ("closed", "renewed"):
            data.closed_at, data.renewed_as = part["decided_at"], request.get("renewed_as", "")
        data.label = request.get("label", "") if outcome.startswith("label") else data.label
        if outcome in (*GRANTS, "begun"):
            require(not data.pauses_of(request), f"{outcome} on {name} by a paused person")
        if outcome in ("member_paused", "member_resumed"):
            self.pause(data, part, request)
        stops = {"paused": outcome, "closed": outcome, "renewed": outcome, "resumed": ""}
        data.stopped = stops.get(outcome, data.stopped)
        if "member" in part:
            data.teams[part["member"]["member"]] = part["member"]
        if "limit" in part:
            limit = part["limit"]
            for field in ("scope", "name", "part", "until"):
                expect(f"limit.{field}", request.get(field), limit.get(field))
            require(limit.get("until", "~") > part["decided_at"], "a limit ends before it was set")
            for field in ("policy", "pace", "reserved"):
                expect(f"limit.{field}", bool(request.get(field)), bool(limit.get(field)))
            for field, value in (request.get("pace") or {}).items():
                expect(f"limit.pace.{field}", value, limit["pace"][field])
            self.set_limit(data, limit)

    def pause(self, data: Dataset, part: Record, request: Record) -> None:
        """Take the pause of a person or a team, or its end."""
        key, pause = (request.get("member"), request.get("team")), part["pause"]
        if part["outcome"] == "member_resumed":
            expect("pause", data.pauses.pop(key, None), pause)
            return
        is_administrator = request.get("as") == "administrator"
        due = {"member": key[0], "team": key[1], "administrator": is_administrator or None}
        due |= {"by": request["by"], "reason": request["reason"], "since": part["decided_at"]}
        require(key not in data.pauses, f"a pause of {key[0] or key[1]} within another")
        expect("pause", {n: each for n, each in due.items() if each is not None}, pause)
        data.pauses[key] = pause

    def record(self, data: Dataset, part: Record, request: Record, spent: Sums) -> None:
        """Check a release made elsewhere: whether it fitted, its team's limits, the guarantee."""
        claim, team, budget = request["claim"], request.get("team"), data.budget
        if "cost" in part:
            fits = not adds_up(data.policy) or any(admit(budget, spent, data.of_policy))
            require(
                fits, f"a release was charged to {part['dataset']} that does not fit its budget"
            )
            data.is_bounded = True
        else:
            most = data.at_most(claim)
            self.known(most is not None, "whether a release that ends the guarantee did not fit")
            fits = most is not None and any(admit(budget, most, data.of_policy))
            require(not fits, "a release ends the guarantee, and fits the budget")
            expect("growth of totals", False, any(less(spent, up(data.totals)).values()))
            data.is_void = True
        limit = data.limits.get(("team", team), {})
        limit = {} if "over" in limit else limit
        named = [(each["scope"], each.get("name")) for each in part.get("levels", ())]
        expect("limits of its team", [("team", team)] * bool(limit.keys() & {*BUDGETS}), named)
        self.limits(data, part, {"claim": claim}, {})
        self.known("shares_cut" not in part, "by how much a release has cut reserved shares")

    def fits(self, data: Dataset, claim: Record, after: Sums, *, is_grant: bool) -> None:
        """Check that totals after a charge are within budget, and that it had to end the filter."""
        if not adds_up(data.policy):
            return
        for limit in (data.of_policy, data.allowed) if is_grant else (data.of_policy,):
            over = [
                f"{n} {text(a or Fraction(0))} of {text(limit(n))}"
                for n, a in up(after).items()
                if n in data.budget and (a is None or a > limit(n))
            ]
            has_room = any(admit(data.budget, after, limit))
            why = f"a charge does not fit the budget: {', '.join(over) or 'it has ended'}"
            require(has_room, why)
        if after.get("filter_ended") and not data.totals["filter_ended"]:
            most = data.at_most(claim)
            by_filter = most is not None and admit(data.budget, most, data.of_policy)[0]
            require(not by_filter, "a grant ends the filter, which admits it")

    def guarantee(self, data: Dataset, part: Record, request: Record) -> None:
        """Check what became of the guarantee: it is never better than before.

        It is void while a reservation is broken. What a broken one has released is charged if it
        fits beside all reserved shares, which is not computed here.
        """
        stated = GUARANTEES.index(part.get("guarantee", ""))
        if part["outcome"] == "resolved":
            data.is_resolved |= "claim" in request
            data.worst = max(data.worst, 1 if request.get("mistaken") else 2)
        if part["outcome"] == "recorded":
            data.worst = max(data.worst, 2 if "cost" in part else 3)
        if (part.get("held") or {}).get("broken"):
            expect("guarantee", "void", GUARANTEES[stated])
            return
        data.worst = stated if data.is_resolved and stated == 3 else data.worst
        data.is_resolved = False
        expect(f"guarantee of {part['dataset']}", GUARANTEES[data.worst], GUARANTEES[stated])

    def known(self, is_known: bool, what: str) -> None:
        self.needs[what] += not is_known

    def give_back(
        self, data: Dataset, part: Record, request: Record, grant: Record, growth: Sums
    ) -> None:
        """Check what a step of a reservation gives back, to its dataset and to its limits."""
        claim, shown = grant["claim"], request.get("shown")
        adds = adds_up(data.policy) and (shown is None or claim["type"] == "brownian")
        self.known(adds, f"what a reservation returns under {data.policy['filter']}")
        charged = grant["charged"][part["dataset"]]
        if shown is not None and claim["type"] == "brownian":
            within = Fraction(claim["variance"]) <= Fraction(shown) <= Fraction(claim["first"])
            expect("settlement within the levels", True, within)
        for name, grown in growth.items() if adds else ():
            due = (charged[name] or 0) * (part["outcome"] == "voided" and name != "filter_ended")
            if shown is not None:
                full, last = cost(name, claim), cost(name, {**claim, "variance": shown})
                due = ((full or 0) - (last or 0)) * UNIT
            most_off = 2 + due / 10**18 if shown is not None else 0
            if grown is not None and abs(due + grown) > most_off:
                raise Wrong(f"{name} falls by {float(-grown / UNIT)}, not {float(due / UNIT)}")
        self.limits(data, part, grant, growth)

    def set_limit(self, data: Dataset, limit: Record) -> None:
        key, policy = (limit["scope"], limit.get("name")), limit.get("policy")
        old = data.limits.get(key, {"version": 0})
        expect(f"version of limit {key}", old["version"] + 1, limit["version"])
        for each in [each for each in (limit, limit.get("pace")) if each and each.get("part")]:
            for name, budget in data.budget.items():
                due = math.floor(Fraction(each["part"]) * units(budget))
                expect(f"budget of limit {key}", due, units(each["budget"][name]))
        if policy:
            self.known(is_budget(policy, limit["budget"]), "budget of a limit's own filter")
        kind = [(policy or data.policy).get(name) for name in KIND]
        limit["kind"] = kind if "budget" in limit else old.get("kind")
        for counts in [each for place, each in data.counts.items() if place[:2] == key]:
            if limit["kind"] != old.get("kind"):
                counts.pop("totals", None)
            if "reserved" not in limit:
                counts.pop("used", None)
        if limit.get("pace") != old.get("pace"):  # another length begins to count them again
            data.windows = {place: n for place, n in data.windows.items() if place[:2] != key}
        data.limits[key] = limit

    def charge(self, data: Dataset, part: Record, grant: Record, growth: Sums) -> None:
        """Check that a grant is charged to each limit that applies, and fits."""
        analyst, levels = grant["request"]["analyst"], part.get("levels", ())
        member = data.teams.get(analyst, {})
        team = member.get("team") if part["decided_at"] < member.get("until", "~") else None
        set_now = [(key, limit) for key, limit in data.limits.items() if "over" not in limit]
        in_force = {key for key, limit in set_now if limit.keys() & {*BUDGETS}}
        own = ("analyst", analyst) if ("analyst", analyst) in in_force else ("each", team)
        due = [key for key in (("dataset", None), ("team", team), own) if key in in_force]
        named = [(each["scope"], each.get("name")) for each in levels]
        expect("limits that apply", due, [k for k in named if k in due or k[0] != "team"])
        self.limits(data, part, grant, growth)

    def limits(self, data: Dataset, part: Record, grant: Record, growth: Sums) -> None:
        """Check by how much each limit has grown, or by how much a step has lowered it.

        That of the team of a release made elsewhere counts the claim, also above its amount.
        """
        is_step, is_grant = part["outcome"] in STEPS, part["outcome"] in GRANTS
        for entry in part.get("levels", ()):
            analyst = grant["request"]["analyst"] if entry["scope"] == "each" else None
            key = (entry["scope"], entry.get("name"), analyst)
            limit, counts = data.limits[key[:2]], data.counts.setdefault(key, {})
            policy, is_new = limit.get("policy"), data.windows.get(key) != entry.get("window")
            data.windows[key] = entry.get("window", data.windows.get(key))
            if not is_step:
                expect(f"version of limit {key}", limit["version"], entry["version"])
                require("over" not in limit, f"a grant is charged to limit {key} after its end")
            budgets = {"totals": limit.get("budget"), "paced": limit.get("pace", {}).get("budget")}
            wanted = [f for (f, _), of in zip(LIMITED, BUDGETS, strict=True) if of in limit]
            found = [field for field, _ in LIMITED if field in entry]
            has_left = is_grant and found == ["used"]  # a team: its share alone is charged
            if not is_step and not has_left:
                expect(f"counts of limit {key}", wanted, found)
            for field, over in [each for each in LIMITED if each[0] in entry]:
                now, own = exact(entry[field], entry.get(over)), field == "totals" and policy
                names, adds = limit["budget"] if own else data.budget, adds_up(own or data.policy)
                for name, more in less(now, counts.get(field, {})).items():
                    due, what = growth.get(name), f"{field} of limit {key} for {name}"
                    back = is_step and (more or 0) <= 0 and (own or (due or 0) <= (more or 0))
                    fresh = now[name] if field == "paced" and is_new else None
                    if not is_step and (own or not is_grant or "filter_ended" in now):
                        is_priced = is_grant or adds
                        known = span(names, name, grant["claim"], now) if is_priced else None
                        begins = known and fresh is not None and known[0] <= fresh <= known[1]
                        is_known = is_cost(what, name, known, fresh if begins else more)
                        self.known(is_known or name == "filter_ended", "cost at a limit")
                    elif adds_up(data.policy) and not back and (fresh is None or fresh != due):
                        expect(f"growth of {what}", due, more)
                budget = budgets.get(field)
                if budget and is_grant and adds:
                    has_room = any(
                        admit(names, now, {n: units(budget[n]) for n in names}.__getitem__)
                    )
                    require(has_room, f"{field} of limit {key} are above its budget")
                counts[field] = now


# ---- Answers: each against its grant, and the chain of their store ----

NAMES = ("dataset", "analyst", "request_id")
STATED = (*NAMES, "question", "noise", "stop")


def plain(value: Any) -> Any:
    """Return JSON without empty fields, which may also be left out."""
    if not isinstance(value, dict):
        return value
    return {name: plain(each) for name, each in value.items() if each not in (None, "", [], {})}


def ends(column: Record, clamp: list[str] | None = None) -> list[Fraction]:
    """Return the bounds of a column, or those of a question that narrows them."""
    return [Fraction(each) for each in clamp or (column.get("lower", 1), column.get("upper", 1))]


def groups_in(group: Any, columns: Record, clamp: list[str] | None = None) -> int:
    """Return how many groups a column, bands or a part of dates makes."""
    if isinstance(group, str):
        return len(columns[group].get("categories", "ab"))
    column = columns[group["column"]]
    if group["group"] == "band":
        (low, high), cuts = ends(column, clamp), [Fraction(each) for each in group.get("cuts", ())]
        if "width" in group:
            width = Fraction(group["width"])
            return int(-(-high // width) - low // width)
        return 1 + sum(low < cut < high for cut in cuts)
    days = [date.fromisoformat(column[name]) for name in ("first", "last")]
    numbers = {
        "year": [day.year for day in days],
        "quarter": [day.year * 4 + (day.month - 1) // 3 for day in days],
        "month": [day.year * 12 + day.month for day in days],
        "week": [(day.toordinal() - 1) // 7 for day in days],
        "day": [day.toordinal() for day in days],
        "weekday": [1, 7],
        "hour": [1, 24],
    }
    first, last = numbers[group["part"]]
    return last - first + 1


def change(noise: Record, question: Record, schema: Record) -> tuple[Fraction, Fraction] | None:
    """Return the most that one unit changes in a statistic: l1, and the square of l2.

    None: the question narrows the column's bounds in two ways, and the noise does not say which.
    """
    columns = {each["name"]: each for each in schema["columns"]}
    of, name = noise.get("column") or question.get("column"), noise["statistic"]
    cells = math.prod(groups_in(each, columns) for each in question.get("by") or ())
    if question["ask"] == "histogram":
        bands = {"group": "band", "column": of, "width": question.get("width")}
        own = bands if bands["width"] else of
        cells *= groups_in(own, columns, question.get("clamp"))
    k = int((schema.get("unit") or {"rows": 1})["rows"])
    k = min(k, int(question.get("rows") or k))
    m = int(question.get("rows_per_group") or k)
    k, m = min(k, m * cells), min(k, m)
    column, numbers = columns.get(of, {}), name != "count" and of
    asked = [each for each in question.get("statistics", [question]) if each.get("column") == of]
    asked = [each for each in asked if numbers and each["ask"] not in ("quantile", "top")]
    if len({json.dumps(each.get("clamp")) for each in asked}) > 1:
        return None
    low, high = ends(column, asked[0].get("clamp") if asked else None)
    grid = Fraction(1, 10 ** column.get("places", 0))
    if name.endswith("_about_middle"):  # int() rounds towards 0
        low, high = (each - int((low + high) / 2 / grid) * grid for each in (low, high))
    if name == "squares_about_middle":
        most = max(low**2, high**2)
        low = -(int(most / 2 / grid**2) * grid**2)
        high = most + low
    if name == "count":
        low, high = Fraction(1), Fraction(1)
    full, rest = divmod(k, m)
    less, most = sorted((max(Fraction(0), -low), max(Fraction(0), high)))
    if schema["neighbours"] != "replace":
        return k * most, (full * m**2 + rest**2) * most**2
    within = most + less
    if cells == 1:
        return k * within, (k * within) ** 2
    each = max(within**2, 2 * most**2)
    last = max((m**2 + rest**2) * each, 2 * (m * most + rest * less) ** 2)
    return 2 * k * most, (full - 1) * m**2 * each + last


LAWS = "discrete_laplace discrete_gaussian rounded_gaussian laplace_reduction gaussian_refinement"


def check_noise(answer: Record, claim: Record, schema: Record, last: Fraction | None) -> bool:
    """Check that each statistic's noise costs what was claimed for it. False: not known here."""
    known = True
    for (atom, _), noise in zip(atoms(claim), answer["statistics"], strict=True):
        if atom["type"] == "bounded_range":
            known = False
            continue
        expect("a known law", True, noise["law"] in LAWS.split())
        found = change(noise, answer["question"], schema)
        if found is None:
            known = False
            continue
        l1, l2_squared = found
        is_laplace = "laplace" in noise["law"]
        least = l1 / Fraction(noise["scale"]) if is_laplace else l2_squared / 2
        least /= 1 if is_laplace else Fraction(noise["variance"])
        off = (last or cost("epsilon" if is_laplace else "rho", atom) or 0) - least
        most = least / 10**12 + Fraction(1, 10**39)
        expect(f"noise of {noise['statistic']} at its claim", True, -most / 10**6 <= off <= most)
    return known


def check_answer(answer: Record, grant: Record, data: Dataset | None, log: Log) -> None:
    """Check that an answer is one to its grant, with the noise that the claim was charged for."""
    claim, levels = grant["claim"], answer.get("levels") or [{"level": None}]
    due = {**{name: grant["request"].get(name) for name in STATED}, "claim": claim}
    expect("content", plain(due), plain({name: answer.get(name) for name in due}))
    if grant["stage"] == "settled":
        expect("level of the settlement", grant["shown"], levels[-1]["level"])
    if answer["outcome"] == "failed":
        expect("values of a failed answer", set(), answer.keys() & {"values", "levels", "low"})
        return
    ((name, amount),), last = answer["cost"].items(), None
    if "stop" in answer:
        power = 2 if name == "rho" else 1
        last = Fraction(claim["sensitivity"]) ** power / power / Fraction(levels[-1]["level"])
        expect("cost", math.ceil(last * UNIT), units(amount))
        falling = [Fraction(each["level"]) for each in levels]
        expect("levels that fall", sorted(set(falling), reverse=True), falling)
    elif all(cost(name, atom) is not None for atom, _ in atoms(claim)):
        costs = [(cost(name, atom) or Fraction(0)) * times for atom, times in atoms(claim)]
        expect("cost", math.ceil(sum(costs) * UNIT), units(amount))
    schema = data.schema if data is not None else None
    known = schema is not None and check_noise(answer, claim, schema, last)
    log.known(known, "noise of a choice, or without the schema")


def check_answers(folder: Path, log: Log, chains: dict[int, list[str]]) -> str:
    """Check all answers, and their chain where the folder has it."""
    seen: set[str] = set()
    for place, line in enumerate(lines_of(folder / "answers.jsonl"), 1):
        try:
            entry = parse(line)
            answer, partition, grant = parse(entry["value"]), entry["partition"], entry["grant"]
            own = [grant, *(entry[name] for name in NAMES)]
            expect("earlier answers", False, grant in seen)
            seen.add(grant)
            if log.answers[partition] and (partition in chains) != ("random" in entry):
                raise Wrong("answers with a chain and without one")
            log.answers[partition] += 1
            if "random" in entry:
                first = sha256(compact(["answers", log.genesis["ledger"], partition]))
                chain = chains.setdefault(partition, [first])
                expect("entry", len(chain), entry["entry"])
                link = [chain[-1], entry["random"], entry["entry"], entry["batch"], partition]
                digest = sha256(entry["value"].encode()).removeprefix("sha256:")
                chain.append(sha256(compact([*link, entry["number"], *own, digest])))
                expect("hash", chain[-1], entry["hash"])
            expect("content", own, [answer[name] for name in ("grant", *NAMES)])
            if not log.is_cut:
                expect("its grant in the log", True, grant in log.grants)
            if grant in log.grants:
                data = log.datasets.get(answer["dataset"])
                check_answer(answer, log.grants[grant], data, log)
        except MALFORMED as wrong:
            raise Wrong(f"line {place} of answers.jsonl: {reason(wrong)}") from None
    return counted(len(seen), "answer is that of its grant", "answers are those of their grants")


def compact(value: list[Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


# ---- Checkpoints and receipts: what was signed and answered, against the log ----


Place = tuple[float, int]  # branch and number of a record
Trusted = tuple[Key, Place, Place]  # a key; its first place, and the first where it is no more


def trusted(log: Log, partition: int, known: list[Key]) -> list[Trusted]:
    """Return the keys from outside, and those that signed changes name after them."""
    keys: list[Trusted] = [(key, (0, 0), (math.inf, 0)) for key in known]
    origin = f"accountant/{log.genesis['ledger']}/{partition}"
    for branch, record in log.commands[partition]:
        place, after = (branch, record["partition_sequence"]), f"after {record['previous']}"
        stated = record.get("key_change") or record.get("rollback") or {}
        named = stated.get("by") or stated.get("key")
        by = [each for each in keys if key_text(each[0]) == named and each[1] <= place < each[2]]
        text = ["key", f"from {named}", f"to {stated.get('key')}", after]
        if "rollback" in record:
            lost = f"branch {branch}\nlost {stated['first']}-{stated['last']}"
            text = ["rollback", lost, f"head {stated['head']}", after, f"key {named}"]
            expect("key of a rollback", True, bool(by) or not known)
        signature = base64.b64decode(stated.get("signature", ""))
        if by and (signature or "rollback" in record):
            signed = "\n".join((origin, *text, "")).encode()
            expect("signature of a command", True, is_signed(by[0][0][2], signed, signature))
        if by and "key_change" in record:  # unsigned: the key was lost; bring the new one, too
            keys[keys.index(by[0])] = (by[0][0], by[0][1], place)
            keys += [(key_of(stated["key"]), place, (math.inf, 0))] if signature else []
    return keys


def check_note(file: Path, log: Log, known: list[Key], chains: dict[int, list[str]]) -> str:
    """Check one signed note against the log, or against the chain of answers."""
    lines = file.read_text("utf-8").split("\n\n")[0].split("\n")
    origin, count, branch = lines[0].split("/"), number(lines[1]), number(lines[3], "branch ")
    partition, is_head = int(origin[2]), origin[3:] == ["answers"]
    expect("origin", ["accountant", log.genesis["ledger"], str(partition)], origin[:3])
    expect("lines", (6, 4) if is_head else (5, 3), (len(lines), len(origin)))
    lost = [each["rollback"] for _, each in log.commands[partition] if "rollback" in each]
    ended = next((each for each in lost if each["branch"] > branch), {"first": math.inf})
    keys, is_past = trusted(log, partition, known), branch + 1 < ended.get("branch", 0)
    if is_head and branch < log.branch_of(partition):
        return "earlier"  # it proves nothing
    if not is_head and ended["first"] < count and (is_past or count <= ended["last"] + 1):
        return "given up"  # by whatever key: that may have been named in what was given up
    _, key = open_note(file.read_bytes(), [each for each, _, _ in keys])
    head = "sha256:" + base64.b64decode(lines[2], validate=True).hex()
    if is_head:
        expect("branch", log.branch_of(partition), branch)
        if partition not in chains or number(lines[4], "begun ") < log.begun[partition]:
            log.known(partition in chains, "heads of a chain of answers that is not here")
            return "earlier"
        expect(f"answer {count}", head, (chains[partition] + ["cut off"] * count)[count])
        log.covered[partition] = max(count, log.covered[partition])
        return "head"
    there = [a <= (branch, count - 1) < b for each, a, b in keys if each == key]
    expect("its key and branch there", True, any(there) and branch <= log.branch_of(partition))
    hashes = log.hashes[partition]
    expect(f"record {count - 1}", head, hashes[count - 1] if count <= len(hashes) else "cut off")
    log.signed[partition] = max(count, log.signed.get(partition, 0))
    return "checkpoint"


def check_notes(folder: Path, log: Log, known: list[Key], chains: dict[int, list[str]]) -> str:
    found: Counter[str] = Counter()
    for file in (folder / "checkpoints").glob("*.head"):
        lines = file.read_text("utf-8").split("\n")
        partition, begun = int(lines[0].split("/")[2]), number(lines[4], "begun ")
        if lines[3] == f"branch {log.branch_of(partition)}":  # each such head must be signed
            log.begun[partition] = max(begun, log.begun.get(partition, 0))
    if not known:
        return "not checked: there is no key"
    wrong = list[str]()
    for file in sorted((folder / "checkpoints").glob("*")):
        try:  # each of them: what a later one covers is signed, whatever an earlier one says
            found[check_note(file, log, known, chains)] += 1
        except MALFORMED as error:
            wrong.append(f"{file.name}: {reason(error)}")
    require(not wrong, "; ".join(wrong[:3]))
    return "agreeing: " + (", ".join(f"{n} of kind {kind}" for kind, n in found.items()) or "none")


def check_receipts(folder: Path, log: Log) -> str:
    count, file = 0, folder / "receipts.jsonl"
    for line in lines_of(file) if file.exists() else ():
        each = parse(line)
        hashes, place = log.hashes.get(each["partition"], []), each["partition_sequence"]
        found = hashes[place] if place < len(hashes) else "cut off"
        if found or not log.is_cut:
            expect(f"record {place} of partition {each['partition']}", each["hash"], found)
        count += 1
    return counted(count, "receipt is of this log", "receipts are of this log")


# ---- The folder ----


def lines_of(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file, compressed or not; of a file that is not there, none."""
    if path.exists():
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    raise Wrong(f"{path.name} ends within a line")
                yield line[:-1]


def check_files(folder: Path, manifest: Record) -> str:
    sums = dict(line.decode().split("  ", 1)[::-1] for line in lines_of(folder / "SHA256SUMS"))
    names = {str(each.relative_to(folder)) for each in folder.rglob("*") if not each.is_dir()}
    expect("files", sorted(sums), sorted(names - {"SHA256SUMS"}))
    for name, digest in sums.items():
        with (folder / name).open("rb") as file:
            expect(name, digest, hashlib.file_digest(file, "sha256").hexdigest())
    listed = {each["name"]: each["sha256"] for each in manifest["files"]}
    expect("files of the manifest", sums, listed | {"manifest.json": sums.get("manifest.json")})
    as_listed = "as SHA256SUMS and the manifest have"
    return counted(len(sums), f"file is {as_listed} it", f"files are {as_listed} them")


def check_log(folder: Path, manifest: Record, log: Log) -> str:
    """Check all records, then that they are those of the manifest."""
    place, name, line = 0, "log.jsonl" if manifest["chained"] else "records.jsonl", b""
    try:
        for line in lines_of(folder / name):
            place += 1
            if manifest["chained"]:
                log.take(line)
            else:
                log.decision(parse(line), parse(line).get("part_of", sha256(line)))
        log.end()
    except MALFORMED as wrong:
        found = re.search(rb'"partition_sequence": ?([0-9]+)', line)
        decision = f"decision {int(found[1])}, " if found else ""
        raise Wrong(f"{decision}line {place} of {name}: {reason(wrong)}") from None
    if not manifest["chained"]:
        records = counted(place, "record", "records")
        return f"{records} of one dataset: they agree with each other, and are NOT chained"
    expect("partitions", list(range(log.genesis["partitions"])), sorted(log.hashes))
    ends = [{"partition": p, "records": len(h), "head": h[-1]} for p, h in log.hashes.items()]
    expect("partitions of the manifest", manifest["partitions"], ends)
    expect("ledger of the manifest", manifest["ledger"], log.genesis["ledger"])
    archives = sorted((folder / "archives").glob("*"))
    for line in (line for file in archives for line in lines_of(file)):
        number_there = parse(line)["partition_sequence"]
        expect(f"archived record {number_there}", log.hashes[0][number_there], sha256(line))
    what = "from the seal on, without its archives" if log.is_cut else "in full"
    records, parts = counted(place, "record", "records"), len(ends)
    return f"{records} of {counted(parts, 'partition', 'partitions')}: one chain each, {what}"


def check_datasets(folder: Path, manifest: Record, log: Log) -> str:
    """Check what the folder shows of each dataset: it follows from the dataset's decisions."""
    lines = [parse(line) for line in lines_of(folder / "datasets.jsonl")]
    views, is_whole = {each["dataset"]: each for each in lines}, manifest["chained"]
    expect("rows of datasets.jsonl", len(lines), len(views))
    named = log.datasets.keys() if is_whole else {manifest["dataset"]}
    newest = Counter[int]()  # which decision of a partition the rows are known to be as of
    for view, data in [(each, log.datasets.get(each["dataset"])) for each in lines]:
        if data is not None:
            newest[data.partition] = max(newest[data.partition], view["partition_sequence"])
    behind = list[str]()  # what was decided while the folder was written
    for name in [*named, *sorted(views.keys() - named)]:
        data, view = log.datasets.get(name), views.get(name)
        if data is None and (log.is_cut or name in named):
            behind.append(name)
            continue
        if data is None:
            raise Wrong(f"datasets.jsonl shows {name}, which was never opened")
        opened_later = is_whole and data.opened > newest[data.partition]
        require(view is not None or opened_later, f"datasets.jsonl does not show {name}")
        if view is None or view["sequence"] < data.sequence or not is_whole:
            is_same = view is not None and view["sequence"] == data.sequence
            behind += [] if is_same else [name]
        if view is not None and name not in behind:
            for field, due in data.shown().items():
                stated, shown = plain(due) or None, plain(view.get(field)) or None
                expect(field, stated, shown, f" of {name} in datasets.jsonl")
            place, count = view["partition_sequence"], len(log.hashes.get(data.partition, ()))
            is_there = data.last["partition_sequence"] <= place < count or place == -1
            why = f"datasets.jsonl shows {name} as of record {place}, which is not its last one"
            require(is_there or not is_whole, why)
    worst = Counter[tuple[bool, str]]()  # guarantee of all datasets of a lifetime
    for data in log.datasets.values():
        state = GUARANTEES.index(data.last.get("guarantee", ""))
        worst[data.of_all] = max(worst[data.of_all], state if data.lifetime else 0)
    for name in views.keys() & log.datasets.keys():
        data, is_known = log.datasets[name], is_whole and not behind
        check_lifetime(views[name], data, log, worst[data.of_all], is_known=is_known)
    log.outside += [f"datasets.jsonl shows {name} as of another record" for name in behind]
    is_compared = "compared with the log"
    return counted(len(views), f"dataset is {is_compared}", f"datasets are {is_compared}")


def check_lifetime(view: Record, data: Dataset, log: Log, worst: int, *, is_known: bool) -> None:
    """Check what is shown of all datasets of a lifetime; known are those that the log has."""
    due, found, state = data.lifetime, view.get("lifetime") or {}, view["lifetime_guarantee"]
    if due.get("shared"):
        due = log.shared.get(data.policy["population"], due)
    if due and not is_known:  # others may have taken more since, and have a worse guarantee
        due, worst = {**due, "spent": found.get("spent")}, max(worst, GUARANTEES.index(state))
        log.known(False, "lifetimes as shown, of which not all datasets are here")
    where = f" of {data.last['dataset']} in datasets.jsonl"
    expect("lifetime", due, found, where)
    expect("lifetime_guarantee", GUARANTEES[worst], state, where)


def check_ledger(due: str, found: object) -> str:
    expect("ledger", due.removeprefix("ledger "), found)  # `accountant head` prints the word, too
    return f"it is {found}"


def main() -> int:
    """Run every check, print a line for each, and return the exit code."""
    ask = argparse.ArgumentParser(description="Verify a folder of evidence.")
    ask.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parent)
    ask.add_argument("--key", action="append", default=[], help="public key, from outside")
    ask.add_argument("--ledger", help="id of the ledger, from outside")
    ask.add_argument("--json", action="store_true", help="print one JSON object")
    asked = ask.parse_args()
    log, chains, results = Log(), dict[int, list[str]](), list[Record]()

    def check(name: str, run: Callable[[], str]) -> bool:
        try:
            found, ok = run(), True
        except Wrong as wrong:
            found, ok = str(wrong), False
        except (ArithmeticError, LookupError, OSError, TypeError, ValueError) as error:
            found, ok = f"cannot be read: {reason(error)}", False
        results.append({"check": name, "ok": ok, "found": found})
        return ok

    try:
        for text in asked.key:
            key_of(text)
    except (Wrong, ValueError):
        print("--key must be as a line of keys.txt, NAME+ID+BASE64", file=sys.stderr)
        return 2
    try:
        manifest = parse((asked.folder / "manifest.json").read_bytes())
        texts = asked.key or [line.decode() for line in lines_of(asked.folder / "keys.txt")]
        keys = [key_of(text) for text in texts]
    except (*MALFORMED, OSError) as error:
        print(f"{asked.folder} cannot be read: {error}", file=sys.stderr)
        return 2
    check("files", lambda: check_files(asked.folder, manifest))
    chained = manifest.get("chained") is True
    if check("log", lambda: check_log(asked.folder, manifest, log)):
        check("datasets", lambda: check_datasets(asked.folder, manifest, log))
        check("answers", lambda: check_answers(asked.folder, log, chains))
        if chained:
            check("checkpoints", lambda: check_notes(asked.folder, log, keys, chains))
            check("receipts", lambda: check_receipts(asked.folder, log))
    if asked.ledger is not None:
        check("ledger", lambda: check_ledger(asked.ledger, log.genesis.get("ledger")))
    notes = [f"needs accountant audit: {what} ({n})" for what, n in sorted(log.needs.items()) if n]
    notes += ["needs accountant audit: each decision again, odometers, noisy values"]
    outside = [f"no --{n} from outside" for n in ("key", "ledger") if not getattr(asked, n)]
    outside += log.outside + ["the records are not chained"] * (not chained)
    for p, hashes in log.hashes.items():
        if n := len(hashes) - log.signed.get(p, 0):
            where = notes if n < len(hashes) else outside
            where.append(f"partition {p}: {n} records are not signed")
    for partition, count in sorted((log.answers - log.covered).items()):
        outside.append(f"partition {partition}: the last {count} answers are not signed")
    notes += [f"NOT PROVED: {each}" for each in outside]
    code = 1 if not all(each["ok"] for each in results) else 3 if outside else 0
    if asked.json:
        print(json.dumps({"exit": code, "checks": results, "notes": notes}, indent=1))
    else:
        for each in results:
            print(f"{'ok   ' if each['ok'] else 'WRONG'} {each['check']}: {each['found']}")
        print("\n".join(notes))
    return code


if __name__ == "__main__":
    sys.exit(main())
