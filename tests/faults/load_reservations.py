"""The reservations of a load: requests that reserve, and sound and wrong steps of each."""

from __future__ import annotations

import hashlib
import json
import math
import random
from fractions import Fraction
from typing import Any, Final

from tests.faults.people import ANALYSTS, ENGINES, OWNER

Body = dict[str, Any]
Sent = tuple[str, Body]
"""A source, and the fields of a record but for its id."""

_UNTIL: Final = ("PT1M", "PT3M", "PT10M", "PT30M", "PT2H", "P1D", "P30D")
_SENSITIVITIES: Final = ("0.5", "1", "3")
_UNIT: Final = 10**40
_REMEMBERED: Final = 60
_NOBODYS: Final = "sha256:" + "0" * 64


def _decimal(exact: Fraction) -> str:
    """Return a number rounded up to 40 digits."""
    whole, part = divmod(math.ceil(exact * _UNIT), _UNIT)
    return f"{whole}.{part:040d}".rstrip("0").rstrip(".")


class ReservationLoad:
    """Draws reservations and their steps, from a seed of its own; it knows what was granted."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._open: dict[str, Body] = {}
        self._stages: dict[str, str] = {}
        self._ended: dict[str, str] = {}  # the variance at which each session has settled

    def hear(self, record: bytes) -> None:
        """Take in a decision: a grant that steps may name, or what has become of one."""
        decision = json.loads(record)
        outcome, update = decision["outcome"], decision.get("reservation", {})
        if outcome == "reserved":
            grant = f"sha256:{hashlib.sha256(record).hexdigest()}"
            self._open[grant] = decision["request"]
            self._stages[grant] = "reserved"
            for old in [*self._open][:-_REMEMBERED]:
                del self._open[old], self._stages[old]
        elif "request" in decision and update:
            stage = update.get("stage", "" if outcome == "refused" else outcome)
            grant = decision["request"].get("grant")
            if decision.get("reason") == "lapsed":
                stage = "lapsed"
            if stage and grant in self._stages:
                self._stages[grant] = stage
                claim = self._open[grant]["claim"]
                if stage == "settled" and claim["type"] == "brownian":
                    self._ended[grant] = update.get("shown", claim["variance"])
        elif decision.get("reason") == "not_open":
            grant = decision["request"]["grant"]
            if grant in self._stages and decision["dataset"] == self._open[grant]["dataset"]:
                self._stages[grant] = "gone"

    def is_next(self) -> bool:
        """Return whether a step, or an owner's word on a broken reservation, comes now."""
        return bool(self._open) and self._chance.random() < 0.16

    def suspended(self) -> str | None:
        """Return a dataset with a broken reservation now and then, to be asked in vain."""
        broken = [grant for grant, stage in self._stages.items() if stage == "broken"]
        if not broken or self._chance.random() < 0.9:
            return None
        return str(self._open[self._chance.choice(broken)]["dataset"])

    def reserve(self) -> Body:
        """Return the field of a request that makes it a reservation, mostly none."""
        if self._chance.random() > 0.3:
            return {}
        return {"reserve": {"until": self._chance.choice(_UNTIL)}}

    def continued(self) -> Body:
        """Return the fields of a request that continues a session now and then, or wrongly."""
        chance, known = self._chance, [each for each in self._ended if each in self._open]
        if not known or chance.random() > 0.06:
            return {}
        grant = chance.choice(known[-8:])
        request, shown = self._open[grant], Fraction(self._ended[grant])
        claim: Body = {"type": "brownian"}
        claim["variance"] = _decimal(shown * Fraction(chance.choice([3, 8, 9]), 10))
        claim |= {"sensitivity": "1", "previous": _decimal(shown), "continues": grant}
        draw = chance.random()
        if draw < 0.1:
            claim["previous"] = _decimal(shown * Fraction(95, 100))
        elif draw < 0.2:
            claim["continues"] = chance.choice([*self._open])
        if chance.random() < 0.5:
            claim["first"] = claim["variance"]
        analyst = request["analyst"] if draw > 0.25 else chance.choice(ANALYSTS)
        return {"dataset": request["dataset"], "analyst": analyst, "claim": claim}

    def session(self, filter_name: str) -> Body | None:
        """Return the claim of a session, mostly of a kind that the filter settles lower."""
        chance = self._chance
        if chance.random() > 0.35:
            return None
        shows = filter_name in {"basic", "ex_post", "split"}
        if chance.random() < (0.7 if shows else 0.2):
            return self._noise_reduction()
        return self._brownian()

    def _noise_reduction(self) -> Body:
        chance = self._chance
        sensitivity, least = chance.choice(_SENSITIVITIES), chance.choice(["20", "50", "99", "333"])
        body: Body = {"type": "ex_post"}
        body["epsilon"] = _decimal(Fraction(sensitivity) / Fraction(least))
        body |= {"sensitivity": sensitivity, "least": least}
        body["first"] = chance.choice([least, "333", "500.5", "1e4"])
        return body | ({"delta": "0"} if chance.random() < 0.2 else {})

    def _brownian(self) -> Body:
        chance = self._chance
        variance = chance.choice(["400", "777", "2500", "9000.5"])
        body: Body = {"type": "brownian", "variance": variance}
        body["sensitivity"] = chance.choice(_SENSITIVITIES)
        body["first"] = chance.choice([variance, "9001", "1e5"])
        if chance.random() < 0.15:
            body["previous"] = chance.choice(["200000", "1e7"])
            body["continues"] = _NOBODYS
        if chance.random() < 0.3:
            body["sampler"] = chance.choice(["normal", "discrete"])
        return body

    def step(self) -> Sent:
        """Return a step of some reservation, or what an owner says about one; some are wrong."""
        chance = self._chance
        known = [*self._open]
        live = [each for each in known if self._stages[each] in _KINDS][-12:]
        grant = chance.choice(live if live and chance.random() < 0.85 else known)
        broken = [each for each, stage in self._stages.items() if stage == "broken"]
        if chance.random() < (0.1 if broken else 0.02):
            return "admin", self._resolve(chance.choice(broken or [grant]))
        request = self._open[grant]
        kind = chance.choice(_KINDS.get(self._stages[grant], ["begin", "settle", "void"]))
        body: Body = {
            "version": 1,
            "type": kind,
            "analyst": request["analyst"],
            "dataset": request["dataset"],
            "grant": grant if chance.random() < 0.97 else _NOBODYS,
            **({"via": request["via"]} if "via" in request and chance.random() < 0.7 else {}),
        }
        draw = chance.random()
        if draw < 0.06:
            body["analyst"] = chance.choice(ANALYSTS)
        elif draw < 0.1 or (kind == "void" and draw < 0.25):
            body["analyst"] = chance.choice([OWNER, OWNER, "owner-2"])
        elif draw < 0.12:
            body["via"] = chance.choice([*ENGINES, "stranger-1"])
        elif draw < 0.13:
            body["dataset"] = f"ds-{chance.randrange(12)}"
        if kind == "settle":
            body |= self._level_shown(request["claim"])
        return "requests", body

    def _level_shown(self, claim: Body) -> Body:
        chance = self._chance
        least = claim.get("least") or claim.get("variance") or "50"
        first, draw = claim.get("first", "100"), chance.random()
        if draw < (0.2 if "first" in claim else 0.85):
            return {}
        if draw < 0.32:
            return {"shown": chance.choice([least, first])}
        if draw < 0.44:
            return {"shown": _decimal(Fraction(least) * Fraction(99, 100))}
        if draw < 0.5:
            return {"shown": _decimal(Fraction(first) * Fraction(101, 100))}
        ratio = Fraction(chance.randrange(101), 100)
        return {"shown": _decimal(Fraction(least) + (Fraction(first) - Fraction(least)) * ratio)}

    def _resolve(self, grant: str) -> Body:
        chance = self._chance
        body: Body = {"version": 1, "type": "resolve", "dataset": self._open[grant]["dataset"]}
        body |= {"by": chance.choice([OWNER] * 9 + ["stranger-1"]), "grant": grant}
        if chance.random() < 0.1:
            body["follows"] = chance.randrange(1, 60)
        if chance.random() < 0.4:
            return body | {"mistaken": "the wrong scale was sent", "claim": None}
        claims: list[Body] = [
            {"type": "pure", "epsilon": chance.choice(["0.001", "0.01", "5"])},
            {"type": "zcdp", "rho": "0.0001"},
            {"type": "gaussian", "sigma": "70", "sensitivity": "1"},
            {"type": "subsampled_gaussian", "sigma": "30", "sensitivity": "1", "rate": "0.1"},
            {"type": "laplace", "scale": "700", "sensitivity": "1"},
            {"type": "ex_post", "epsilon": "0.002"},
        ]
        return body | {"claim": chance.choice(claims), "reason": "it showed one level more"}

    def broken(self, request: Body) -> Sent:
        """Return a record of a reservation that breaks a rule.

        Args:
            request: a sound one.
        """
        chance = self._chance
        kept = ("version", "analyst", "dataset")
        step: Body = {name: request[name] for name in kept} | {"grant": _NOBODYS}
        record: Body = {"version": 1, "type": "resolve", "dataset": "ds-0", "by": OWNER}
        ex_post: Body = {"type": "ex_post", "epsilon": "0.1", "sensitivity": "1", "first": "20"}
        refined: Body = {"type": "brownian", "variance": "9", "sensitivity": "1"}
        large = {"type": "all_of", "claims": [{"type": "pure", "epsilon": "0." + "1" * 40}] * 99}
        wrong: list[Sent] = [
            *[("requests", {**request, "reserve": each}) for each in _NO_TIMES],
            ("requests", {**request, "claim": large, "reserve": {"until": "P1D"}}),
            ("requests", {**request, "claim": ex_post}),
            ("requests", {**request, "claim": {**ex_post, "least": "11"}}),
            ("requests", {**request, "claim": {**ex_post, "least": "10", "delta": "1e-9"}}),
            ("requests", {**request, "claim": {**ex_post, "least": "10", "first": "9"}}),
            ("requests", {**request, "claim": {**refined, "first": "8"}}),
            ("requests", {**request, "claim": {**refined, "first": "12", "previous": "12"}}),
            ("requests", {**request, "claim": {**refined, "sampler": "uniform"}}),
            ("requests", {**request, "claim": {**refined, "continues": _NOBODYS}}),
            ("requests", {**request, "claim": {**refined, "previous": "12", "continues": "7"}}),
            (
                "requests",
                {**request, "claim": {**refined, "previous": "12"}, "reserve": {"until": "P1D"}},
            ),
            *[("requests", {**step, "type": "begin", "grant": each}) for each in _NO_GRANTS],
            *[("requests", {**step, "type": "settle", "shown": each}) for each in _NO_LEVELS],
            ("requests", {**step, "type": "settle", "cost": "0.01"}),
            ("requests", {**step, "type": "void", "shown": "10"}),
            ("requests", {**step, "type": "void", "via": ""}),
            ("requests", {**record, "grant": _NOBODYS, "mistaken": "no"}),
            ("admin", {**step, "type": "begin"}),
            ("admin", {**record, "mistaken": "no"}),
            ("admin", {**record, "grant": _NOBODYS}),
            ("admin", {**record, "grant": _NOBODYS, "mistaken": ""}),
            ("admin", {**record, "grant": _NOBODYS, "mistaken": "x" * 201}),
            ("admin", {**record, "grant": _NOBODYS, "mistaken": "no", "claim": ex_post}),
            ("admin", {**record, "grant": _NOBODYS, "claim": ex_post}),
        ]
        return chance.choice(wrong)


_KINDS: Final = {
    "reserved": ["begin"] * 9 + ["void"] * 6 + ["settle"],
    "begun": ["settle"] * 12 + ["begin", "void"],
    "broken": ["settle", "settle", "begin", "void"],
}
_NO_TIMES: Final[list[Any]] = [
    *({"until": each} for each in ("P31D", "PT0M", "P1W", "PT721H", "", 7)),
    *({}, None, {"until": "P1D", "by": "ana"}, "P1D"),
]
_NO_GRANTS: Final[list[Any]] = ["", "0" * 64, "sha256:" + "G" * 64, 7, None]
_NO_LEVELS: Final[list[Any]] = ["0", "-1", "1/3", "inf", 40, None]
