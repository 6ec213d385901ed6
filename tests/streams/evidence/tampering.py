"""Ten ways to tamper with a log, each drawn by a seed, and what must be said of it."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from accountant.partition.decide import decide
from accountant.partition.draft import Draft, genesis_decision
from accountant.records import decode_decision
from accountant.records.inputs import Input
from accountant.replay.apply import parse_source
from accountant.replay.replay import Replay
from accountant.times import from_iso
from streams.processing.journal import new_ledger_id

Log = list[bytes]
_EMPTY: Final = "sha256:" + "0" * 64


class Drawn(NamedTuple):
    """What one draw does to a log.

    Attributes:
        whole: how many decisions the log had.
        kept: numbers of the decisions of which a checkpoint was kept, increasing.
        log: what is left in its place.
        without_state: the rows of `state` are taken away, so that a start reads the whole log.
        first: number of the first decision that is another one, or that is missing.
        gap: numbers that `log` has none of, where the others keep their places.
    """

    whole: int
    kept: list[int]
    log: Log
    without_state: bool
    first: int
    gap: range = range(0)


class Sound(NamedTuple):
    """What is tampered with.

    Attributes:
        log: it grew by one decision after another.
        other: the log of another ledger with the same settings.
        least: how many decisions it had at least when it was tampered with.
    """

    log: Log
    other: Log
    least: int


Kind = Callable[[Sound, random.Random], Drawn]


def hash_of(value: bytes) -> str:
    return f"sha256:{hashlib.sha256(value).hexdigest()}"


def _begun(sound: Sound, draw: random.Random, *, to_the_end: bool = False) -> tuple[Log, list[int]]:
    """Draw how far the log had grown, and of which decisions a checkpoint was kept."""
    log = sound.log[: draw.randint(sound.least, len(sound.log))]
    most = len(log) - 1
    kept = set(draw.sample(range(1, most + 1), draw.randint(1, 4)))
    return log, sorted(kept | ({most} if to_the_end else set()))[-4:]


def _mended(log: Log, first: int) -> Log:
    """Return a log whose chain is right again from a decision on, whatever was done to it."""
    out = log[:first]
    for value in log[first:]:
        chained = {"partition_sequence": len(out), "previous": hash_of(out[-1])}
        out.append(_text(json.loads(value) | chained))
    return out


def _text(decision: dict[str, Any]) -> bytes:
    return json.dumps(decision, separators=(",", ":"), ensure_ascii=False).encode()


def _changed(sound: Sound, draw: random.Random, change: Callable[[Log, int], Log]) -> Drawn:
    """Change a log at or before its newest checkpoint; half of the time mend the chain behind.

    Args:
        change: what is done to the log at a place.
    """
    log, kept = _begun(sound, draw)
    place = draw.randint(1, kept[-1])
    changed = change(log, place)
    first = _first(log, changed)
    if draw.random() < 0.5:
        changed = _mended(changed, first)
    return Drawn(len(log), kept, changed, draw.random() < 0.5, first)


def _first(log: Log, changed: Log) -> int:
    pairs = zip(log, changed, strict=False)
    same = (number for number, (one, other) in enumerate(pairs) if one != other)
    return next(same, min(len(log), len(changed)))


def edited(sound: Sound, draw: random.Random) -> Drawn:
    """Change one value anywhere in a decision."""
    return _changed(
        sound, draw, lambda log, at: [*log[:at], _edited(log[at], draw), *log[at + 1 :]]
    )


def _edited(value: bytes, draw: random.Random) -> bytes:
    decision = json.loads(value)
    path = draw.choice(sorted(_leaves(decision)))
    holder = decision
    for step in path[:-1]:
        holder = holder[int(step) if isinstance(holder, list) else step]
    last: Any = int(path[-1]) if isinstance(holder, list) else path[-1]
    holder[last] = _other(holder[last], draw)
    return _text(decision)


def _leaves(value: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found = list[tuple[str, ...]]()
    for name, each in items:
        if path == () and name in {"partition_sequence", "previous"}:
            continue  # mending the chain would undo it
        here = (*path, str(name))
        found += _leaves(each, here) if isinstance(each, dict | list) and each else [here]
    return found


def _other(value: Any, draw: random.Random) -> Any:
    """Return a value like another one: one digit or letter differs."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if not isinstance(value, str) or not any(map(str.isalnum, value)):
        return "x"
    place = draw.choice([place for place, each in enumerate(value) if each.isalnum()])
    alike = "0123456789" if value[place].isdigit() else "abcdef"
    return value[:place] + draw.choice(alike.replace(value[place], "")) + value[place + 1 :]


def dropped(sound: Sound, draw: random.Random) -> Drawn:
    """Take out one decision, or a few in a row."""
    log, kept = _begun(sound, draw)
    place = draw.randint(1, kept[-1])
    end = min(len(log), place + draw.randint(1, 3))
    rest = [*log[:place], *log[end:]]
    without_state = draw.random() < 0.5
    if draw.random() < 0.5:
        return Drawn(len(log), kept, _mended(rest, place), without_state, place)
    return Drawn(len(log), kept, rest, without_state, place, range(place, end))


def swapped(sound: Sound, draw: random.Random) -> Drawn:
    """Have two decisions change places."""

    def swap(log: Log, place: int) -> Log:
        other = draw.choice([n for n in range(1, len(log)) if n != place])
        out = [*log]
        out[place], out[other] = out[other], out[place]
        return out

    return _changed(sound, draw, swap)


def doubled(sound: Sound, draw: random.Random) -> Drawn:
    """Put a decision in a second time, before or behind itself."""

    def double(log: Log, place: int) -> Log:
        return [*log[:place], draw.choice([*log[1:place], *log[place + 1 :]]), *log[place:]]

    return _changed(sound, draw, double)


def _cut(sound: Sound, draw: random.Random, *, without_state: bool) -> Drawn:
    log, kept = _begun(sound, draw)
    end = draw.randint(1, kept[-1])
    return Drawn(len(log), kept, log[:end], without_state, end)


def truncated(sound: Sound, draw: random.Random) -> Drawn:
    """Cut the end off, and leave `state` as it is."""
    return _cut(sound, draw, without_state=False)


def cut(sound: Sound, draw: random.Random) -> Drawn:
    """Cut the end off, and empty `state`."""
    return _cut(sound, draw, without_state=True)


def put_back(sound: Sound, draw: random.Random) -> Drawn:
    """Put back what the ledger was some decisions before, `state` and all.

    Where a ledger's file is put back, `state` is what it was then.
    """
    return _cut(sound, draw, without_state=False)


def decided_again(sound: Sound, draw: random.Random) -> Drawn:
    """Have the same requests decided again without one of them."""
    log, kept = _begun(sound, draw)
    rewritten = _without(log, draw.randint(1, kept[-1]))
    return Drawn(len(log), kept, rewritten, True, _first(log, rewritten))


def of_another_ledger(log: Log) -> Log:
    """Return what the same requests would have made of a ledger with another id."""
    first = decode_decision(log[0])
    assert first.genesis is not None
    genesis = msgspec.structs.replace(first.genesis, ledger=new_ledger_id())
    return _decided([genesis_decision(genesis, from_iso(first.decided_at)).value, *log[1:]])


def _without(log: Log, number: int) -> Log:
    return _decided([*log[:number], *log[number + 1 :]])


def _decided(log: Log) -> Log:
    """Return the log that the requests in another one make behind its genesis."""
    first = decode_decision(log[0])
    assert first.genesis is not None
    refold = Replay(first.genesis)
    refold.take_decision(log[0])
    draft, out = Draft(refold.finish()), [log[0]]
    for decision in map(decode_decision, log[1:]):
        if decision.source is None:
            continue
        source, at = parse_source(decision.source.topic), from_iso(decision.decided_at)
        body = bytes(decision.request) if decision.request else b"{"
        out.append(decide(draft, Input(source, draft.next[source], None, body, at), at).value)
    return out


def last_changed(sound: Sound, draw: random.Random) -> Drawn:
    """Change the last decision, which none follows, so that it reads well, and empty `state`."""
    log, kept = _begun(sound, draw, to_the_end=True)
    decision = json.loads(log[-1])
    wheres = [where for where in ("analyst", "request_id") if where in decision.get("request", {})]
    where = draw.choice([*wheres, "decided_at"])
    if where == "decided_at":
        at = decision["decided_at"]
        decision["decided_at"] = at[:-2] + ("1Z" if at[-2] == "0" else "0Z")
    else:
        decision["request"][where] = _other(decision["request"][where], draw)
    return Drawn(len(log), kept, [*log[:-1], _text(decision)], True, len(log) - 1)


def another_ledgers(sound: Sound, draw: random.Random) -> Drawn:
    """Put another ledger's log, of some length, under this one's name."""
    log, kept = _begun(sound, draw)
    return Drawn(len(log), kept, sound.other[: draw.randint(2, len(sound.other))], False, 0)


KINDS: Final[dict[str, Kind]] = {
    "edited": edited,
    "dropped": dropped,
    "swapped": swapped,
    "doubled": doubled,
    "truncated": truncated,
    "cut-without-state": cut,
    "old-backup": put_back,
    "decided-again": decided_again,
    "last-record": last_changed,
    "another-ledger": another_ledgers,
}

WOULD_DECIDE: Final = (
    "cut-without-state",
    "old-backup",
    "decided-again",
    "last-record",
    "another-ledger",
)
"""What is left in the place of the log agrees with itself: nothing but checkpoints can tell."""


def named(sound: Sound, drawn: Drawn) -> list[str]:
    """Return what an audit with checkpoints must say of a ledger's log, without the times."""
    if _ledger(drawn.log) != _ledger(sound.log):
        return ["no checkpoint of this ledger was found"]
    return expected_findings(sound, drawn)


def expected_findings(sound: Sound, drawn: Drawn) -> list[str]:
    """Return what the checkpoints that were kept show, each in words, without the times."""
    said, end = list[str](), len(drawn.log) - 1
    for number in drawn.kept:
        signed = hash_of(sound.log[number])
        if number > end:
            said.append(f"truncated: the log ends at decision {end}, but decision {number} was")
        elif (there := hash_of(drawn.log[number])) != signed:
            said.append(f"differs: decision {number} is {there}, but {signed} was signed")
    return said


def _ledger(log: Log) -> str:
    ledger: str = json.loads(log[0])["genesis"]["ledger"]
    return ledger


def broken_at(log: Log) -> int | None:
    """Return the place of the first decision that does not continue the chain, None without one."""
    previous = _EMPTY
    for place, value in enumerate(log):
        decision = json.loads(value)
        if (decision["partition_sequence"], decision["previous"]) != (place, previous):
            return place
        previous = hash_of(value)
    return None
