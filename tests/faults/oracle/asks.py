"""Asks for more and their answers: docs/reference/records/asks.md."""

from __future__ import annotations

from typing import Any, Final

from tests.faults.oracle.expected import Fields
from tests.faults.oracle.members import ROLES, Members
from tests.faults.oracle.texts import is_short

MOST_OF_PERSON: Final = 10
MOST: Final = 500
WANTED: Final = {"access": {"role"}, "limit": {"part", "budget"}, "budget": {"budget"}}
"""What an ask may name, by what it wants; it names one."""


class Asks:
    """The asks of one dataset, by number: the fields of their rows."""

    def __init__(self) -> None:
        self.all: dict[int, Fields] = {}

    def may_ask(self, record: Fields, members: Members, access: str, at: int) -> bool:
        """Return whether somebody may ask for this."""
        by = record["by"]
        in_force = any(members.has(by, role, at) for role in ROLES)
        if record.get("team") is not None:
            return in_force and members.team(by, at) == record["team"]
        return record["wants"] == "access" or access != "members" or in_force

    def has_room(self, by: str) -> bool:
        """Return whether there is room for one more open ask of a person."""
        waiting = [each["by"] for each in self.all.values() if each["state"] == "open"]
        return waiting.count(by) < MOST_OF_PERSON and len(waiting) < MOST

    def take(self, record: Fields, sequence: int, at: int) -> None:
        """Add an ask in the place of the oldest answered one, where there is no other."""
        own = [n for n, each in self.all.items() if each["by"] == record["by"]]
        self._drop_answered(own, MOST_OF_PERSON)
        self._drop_answered(list(self.all), MOST)
        budget = record.get("budget")
        named = {
            name: record[name] for name in ("role", "part", "team") if record.get(name) is not None
        }
        if budget is not None:
            named["budget"] = {name: each for name, each in budget.items() if each is not None}
        self.all[sequence] = {
            "by": record["by"],
            "wants": record["wants"],
            **named,
            "reason": record["reason"],
            "asked_at": at,
            "state": "open",
        }

    def _drop_answered(self, numbers: list[int], most: int) -> None:
        answered = sorted(n for n in numbers if self.all[n]["state"] != "open")
        if len(numbers) >= most and answered:
            del self.all[answered[0]]

    def why_not(self, record: Fields) -> str | None:
        """Return why a record answers not the ask that it names; None where it names none."""
        number = record["ask"] if record["type"] == "decline" else record.get("answers")
        if number is None:
            return None
        ask = self.all.get(number)
        if ask is None or ask["state"] != "open":
            return "unknown_ask"
        return None if _fits(ask, record) else "other_ask"

    def answer(self, record: Fields, sequence: int, at: int) -> Fields:
        """Apply the answer of an applied record, and return the fields of the decision."""
        number = record["ask"] if record["type"] == "decline" else record.get("answers")
        if number is None:
            return {}
        self.all[number] |= {
            "state": "declined" if record["type"] == "decline" else "accepted",
            "answered_at": at,
            "answered_by": record["by"],
            "answer": sequence,
            **({"why": record["reason"]} if record.get("reason") else {}),
        }
        return {"answers": number}

    def rows(self, dataset: str) -> dict[bytes, Fields]:
        """Return the row of each, by its key."""
        return {
            f'{{"dataset":"{dataset}","ask":{number}}}'.encode(): {
                "type": "ask",
                "version": 2,
                "dataset": dataset,
                "ask": number,
                **ask,
            }
            for number, ask in sorted(self.all.items())
        }


def _fits(ask: Fields, record: Fields) -> bool:
    wants, by, kind = ask["wants"], ask["by"], record["type"]
    if kind == "decline":
        return bool(record["asker"] == by)
    if kind == "member":
        return wants == "access" and record["member"] == by and ask["role"] in record["roles"]
    if kind == "limit":
        gives = any(record.get(n) is not None for n in ("part", "policy", "pace", "reserved"))
        place = ("team", ask["team"]) if "team" in ask else ("analyst", by)
        return wants == "limit" and (record["scope"], record["name"]) == place and gives
    return bool(wants == "budget")


def is_reason(value: Any) -> bool:
    """Return whether a value is a text that is there."""
    return is_short(value) and bool(value)


def is_role(value: Any) -> bool:
    """Return whether a value is a role."""
    return value is None or value in ROLES


def is_wanted(value: Any) -> bool:
    """Return whether a value is something that may be asked for."""
    return isinstance(value, str) and value in WANTED


def mismatched(record: Fields) -> set[str]:
    """Return the fields of an ask that do not go with what it wants."""
    if not is_wanted(record.get("wants")):
        return set()
    takes = WANTED[record["wants"]]
    given = {name for name in ("role", "part", "budget") if record.get(name) is not None}
    wrong = given - takes
    if record.get("team") is not None and record["wants"] != "limit":
        return wrong | {"team"}
    return wrong if wrong or len(given) == 1 else takes
