"""The offer in a refusal: docs/reference/records/decision.md, `fits`."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

from tests.faults.oracle import filters, halves, residue
from tests.faults.oracle.amounts import INFINITE, Range
from tests.faults.oracle.claims import is_claim
from tests.faults.oracle.levels import Levels, as_json
from tests.faults.oracle.meter import Meter
from tests.faults.oracle.worth import atoms, price

Claim = dict[str, Any]
Totals = Mapping[str, Any]
_KNOBS: Final = {
    **dict.fromkeys(
        ("pure", "approximate", "probabilistic", "randomized_response", "ex_post"), "epsilon"
    ),
    "zcdp": "rho",
    "approximate_zcdp": "rho",
    "gdp": "mu",
    "bounded_range": "eta",
    "laplace": "scale",
    "gaussian": "sigma",
    "subsampled_gaussian": "sigma",
    "brownian": "variance",
    "repeat": "times",
}
_NOISE: Final = {"scale", "sigma", "variance"}
_FIELDS: Final = {
    "approximate_zcdp": ("rho", "delta"),
    "laplace": ("scale", "sensitivity"),
    "gaussian": ("sigma", "sensitivity"),
    "subsampled_gaussian": ("sigma", "sensitivity", "rate"),
    "brownian": ("variance", "sensitivity", "previous", "first", "sampler", "continues"),
    "ex_post": ("epsilon", "delta", "sensitivity", "first", "least"),
}
_DIGITS: Final = 4
_SLACK: Final = Fraction(1, 10**9)
"""Of the cap alone: docs/reference/records/policy.md, `most_per_request`."""


def plain(claim: Claim) -> Claim:
    """Return the claim that an offer is like: a session is offered as one answer of it."""
    of_sessions = {
        "brownian": {"first"},
        "ex_post": {"sensitivity", "first", "least"},
    }.get(claim["type"], set())
    return {name: value for name, value in claim.items() if name not in of_sessions}


class Fits:
    """The offer of one refusal, for a comparison with a record.

    It names the claim that was asked for with another value of the one field that a person
    turns; that claim fits, and the next value that costs more does not.
    """

    def __init__(
        self,
        policy: dict[str, Any],
        meter: Meter,
        spent: Totals,
        claim: Claim,
        levels: Levels | None = None,
    ) -> None:
        self._policy = policy
        self._meter, self._capacity = meter, meter.whole
        self._spent = spent
        self._claim = plain(claim)
        self._levels = levels
        ratio = policy.get("most_per_request", "1")
        self._cap = Fraction(ratio) * (1 + _SLACK) if Fraction(ratio) < 1 else None

    def is_above_cap(self, claim: Claim, cost: dict[str, Range]) -> bool:
        """Return whether a claim alone would take more of an empty budget than the cap allows."""
        if self._cap is None:
            return False
        alone = self.alone(claim, cost)
        return alone is None or alone > self._cap

    def alone(self, claim: Claim, cost: dict[str, Range]) -> Fraction | None:
        """Return the part of an empty budget that a claim takes, None if it does not fit."""
        nothing = dict.fromkeys(halves.state(self._policy), 0)
        after = self._after(claim, cost, nothing)
        return None if after is None else self._meter.part(self._meter.limits, after)

    def _after(self, claim: Claim, cost: dict[str, Range], spent: Totals) -> Totals | None:
        own = self._by_filter(claim, cost, spent)
        grown = halves.charged(self._policy, self._capacity, spent, own, cost)
        if grown is None:
            return None
        return {name: _plus(spent[name], low) for name, (low, _) in grown.items()}

    def _by_filter(
        self, claim: Claim, cost: dict[str, Range], spent: Totals
    ) -> dict[str, Range] | None:
        names = filters.sums(self._policy)
        capacity = tuple(self._capacity[name] for name in names)
        own = {name: cost[name] for name in names}
        if filters.is_by_state(self._policy):
            found = residue.charge(list(atoms(claim)), capacity[0] - spent[names[0]])
            if found is None:
                return None
            own[names[0]] = found
        after = tuple(_plus(spent[name], own[name][0]) for name in names)
        return own if filters.admits(self._policy, capacity, after) else None

    def offered(self, said: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a refusal's offer, with the filter that the offer would end."""
        offer = said.get("fits")
        if offer is None or not halves.is_beside(self._policy) or self._spent[halves.ENDED]:
            return {"fits": self}
        claim = self._like(str(offer))
        if claim is None:
            return {"fits": self}
        cost = price(claim, halves.needs(self._policy))
        ends = self._by_filter(claim, cost, self._spent) is None
        return {"fits": self, **({"ends": self._policy["filter"]} if ends else {})}

    def _within(self, claim: Claim) -> Fits:
        return Fits(self._policy, self._meter, self._spent, claim, self._levels)

    def _like(self, offer: str) -> Claim | None:
        """Return the claim of an offer; None if it is not like the requested one."""
        claim = self._claim
        if claim["type"] == "interactive":
            kind, _, rest = offer.partition(":")
            within = self._within(claim["claim"])._like(rest)
            return None if kind != "interactive" or within is None else {**claim, "claim": within}
        knob = _KNOBS.get(claim["type"], "")
        value = self._value(offer, knob) if knob else None
        return None if value is None else {**claim, knob: value}

    def admits(self, claim: Claim) -> bool:
        """Return whether a claim would be granted."""
        if not is_claim(claim, 0):
            return False
        cost = price(claim, halves.needs(self._policy))
        if not halves.accepts(self._policy, claim, cost) or self.is_above_cap(claim, cost):
            return False
        after = self._after(claim, cost, self._spent)
        if after is None or not self._meter.is_in_force(after):
            return False
        return self._levels is None or self._levels.admit(as_json(claim))

    def __eq__(self, said: object) -> bool:
        if self._claim["type"] == "all_of":
            return said is None
        if self._claim["type"] == "interactive":
            # It costs what it is claimed by, alone.
            inner = self._within(self._claim["claim"])
            if said is None:
                return inner == None  # noqa: E711 (the argument of `__eq__`)
            kind, _, rest = str(said).partition(":")
            return kind == "interactive" and inner == rest
        knob = _KNOBS[self._claim["type"]]
        if said is None:
            return not self.admits(self._least(knob))
        value = self._value(str(said), knob)
        if value is None or not self.admits({**self._claim, knob: value}):
            return False
        if knob == "times":
            # Batches under gdp_residue are counted from below.
            batch = self._claim["claim"]["type"] in {"repeat", "all_of"}
            filters_asked = {
                self._policy["filter"],
                *(self._levels.filters if self._levels else ()),
            }
            counted = batch and "gdp_residue" in filters_asked
            return counted or not self.admits({**self._claim, knob: int(value) + 1})
        return not self.admits({**self._claim, knob: _next(str(value), knob)})

    __hash__ = None  # type: ignore[assignment]

    def _least(self, knob: str) -> Claim:
        """Return the claim of this kind with the least cost above 0."""
        claim = self._claim
        if knob == "times":
            return {**claim, knob: 1}
        if knob == "variance" and "previous" in claim:
            return {**claim, knob: _next(claim["previous"], "epsilon", down=True)}
        if knob in _NOISE:
            return {**claim, knob: "1e9"}
        return {**claim, knob: "1e-25" if knob == "rho" else "1e-12"}

    def _value(self, text: str, knob: str) -> Any:
        """Return a text's value of the knob; None if it is another claim."""
        claim = self._claim
        if knob == "times":
            times, _, rest = text.partition("*")
            inner = as_text(claim["claim"])
            grouped = claim["claim"]["type"] in {"repeat", "all_of"}
            right = rest == (f"({inner})" if grouped else inner)
            return int(times) if right and times.isdecimal() else None
        head, _, fields = text.partition(":")
        parts = fields.split(",")
        value = next((part.rpartition("=")[2] for part in parts if _names(part, knob)), None)
        if value is None or head != claim["type"] or as_text({**claim, knob: value}) != text:
            return None
        return value if len(_digits(value)) <= _DIGITS else None

    def __repr__(self) -> str:
        return f"the largest claim like {self._claim} that fits"


def _plus(one: Any, other: Any) -> Any:
    # Python cannot add a large integer to a float that is infinite.
    return INFINITE if INFINITE in (one, other) else one + other


def _names(part: str, knob: str) -> bool:
    name, equals, _ = part.rpartition("=")
    return name == knob if equals else True


def as_text(claim: Claim) -> str:
    """Return a claim in the short form."""
    kind = claim["type"]
    if kind == "repeat":
        return f"{claim['times']}*{_grouped(claim['claim'])}"
    if kind == "all_of":
        parts = "+".join(map(_grouped, claim["claims"]))
        return parts + "+" * (len(claim["claims"]) == 1)
    if kind == "interactive":
        return f"{kind}:{as_text(claim['claim'])}"
    fields = [*written(claim).items()][1:]
    if len(fields) == 1:
        return f"{kind}:{fields[0][1]}"
    return f"{kind}:" + ",".join(f"{name}={value}" for name, value in fields)


def written(claim: Claim) -> Claim:
    """Return a claim with its fields in the order in which the ledger writes them."""
    kind = claim["type"]
    if kind == "repeat":
        return {"type": kind, "claim": written(claim["claim"]), "times": claim["times"]}
    if kind == "all_of":
        return {"type": kind, "claims": [written(each) for each in claim["claims"]]}
    if kind == "interactive":
        return {"type": kind, "claim": written(claim["claim"])}
    order = _FIELDS.get(kind, ("epsilon", "rho", "mu", "eta", "delta"))
    full = {"delta": "0", **claim} if kind in {"randomized_response", "ex_post"} else claim
    return {"type": kind, **{name: full[name] for name in order if name in full}}


def _grouped(claim: Claim) -> str:
    text = as_text(claim)
    return f"({text})" if claim["type"] in {"repeat", "all_of"} else text


def _digits(text: str) -> str:
    return text.partition("e")[0].replace(".", "").strip("0")


def _next(text: str, knob: str, *, down: bool = False) -> str:
    """Return the next decimal of four digits with a higher cost."""
    value = Fraction(text)
    step = Fraction(1)
    while value / step >= 10**_DIGITS:
        step *= 10
    while value / step < 10 ** (_DIGITS - 1):
        step /= 10
    moved = value - step if knob in _NOISE or down else value + step
    units = int(moved * 10**40)
    whole, part = divmod(units, 10**40)
    return f"{whole}.{part:040d}".rstrip("0").rstrip(".")
