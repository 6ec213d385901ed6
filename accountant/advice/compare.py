"""A policy's alternatives on the same requests: the decisions of each filter and odometer.

Each alternative has its own ledger, which decides every line as the service would.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from accountant.advice.offline import OfflineLedger
from accountant.advice.tune import guaranteed_epsilon, odometers_for, replace_filter
from accountant.errors import RequestInvalid
from accountant.filters import FILTERS
from accountant.odometers import AnyOdometer
from accountant.policy import MAX_ODOMETERS, PARAMETERS, Policy, parameter_text, resolve
from accountant.policy.compiled_policy import open_plan
from accountant.records.encoded_decision import EncodedDecision, by_dataset
from accountant.records.outcomes import Reason

Kind = Literal["filter", "odometer", "comparator"]
_ENDLESS: Final = "1000000"


@dataclass(slots=True)
class ComparisonTally:
    """The counts of one alternative on one dataset.

    Attributes:
        admitted, refused: numbers of requests.
        not_taken: number of refused requests without a finite cost under the alternative.
        first_refusal: number of the first refused request in the order of time, from 1.
        spent_ratio: the spent part of the additive budget; an odometer's reading over epsilon.
        reading: an odometer's reading in nats, after the grants of the policy's own filter.
    """

    admitted: int = 0
    refused: int = 0
    not_taken: int = 0
    first_refusal: int | None = None
    spent_ratio: float = 0.0
    reading: str | None = None

    def admit(self) -> None:
        self.admitted += 1

    def refuse(self, line: int, *, not_taken: bool = False) -> None:
        self.refused += 1
        self.not_taken += not_taken
        if self.first_refusal is None:
            self.first_refusal = line


@dataclass(frozen=True, slots=True)
class Alternative:
    """A filter or odometer in the policy's place, or a comparator, which cannot take it.

    Attributes:
        name: the name of the filter or odometer.
        own: whether the policy itself uses it.
        settings: its parameters, as text.
        why_not: why it is no alternative to the policy; empty if it is one.
        decides: whether it has counts; an odometer has none if the policy promises no epsilon.
        tallies: its counts by dataset.
    """

    kind: Kind
    name: str
    own: bool = False
    settings: str = ""
    why_not: str = ""
    decides: bool = True
    tallies: dict[str, ComparisonTally] = field(default_factory=dict)

    def at(self, dataset: str) -> ComparisonTally:
        return self.tallies.setdefault(dataset, ComparisonTally())


class Comparison:
    """Decides lines under a policy and each of its alternatives.

    Attributes:
        lines: number of decided lines.
    """

    def __init__(self, policy: Policy) -> None:
        """Make the alternatives of a policy.

        Args:
            policy: as its owner wrote it, not resolved.
        Raises: RequestInvalid: the policy breaks a rule.
        """
        own = resolve(policy)
        open_plan(own)
        self.lines = 0
        self._filters: list[tuple[Alternative, OfflineLedger]] = []
        self._impossible: list[Alternative] = []
        for name in FILTERS:
            self._add_filter(name, policy)
        self._odometers = _Odometers(own)

    def _add_filter(self, name: str, policy: Policy) -> None:
        own = name == policy.filter
        try:
            made = resolve(policy if own else replace_filter(policy, name))
            open_plan(made)
        except RequestInvalid as error:
            why = f"{error.field.removeprefix('policy.')} {error.rule}"
            self._impossible.append(Alternative("filter", name, why_not=why))
            return
        settings = _settings(made)
        alternative = Alternative("filter", name, own, settings)
        ledger = OfflineLedger(msgspec.structs.replace(made, odometers=()), "compare")
        self._filters.append((alternative, ledger))

    def take(self, line: bytes) -> EncodedDecision:
        """Decide one line under every alternative, and return the policy's own decision.

        An invalid line is invalid under every alternative and changes no count.
        """
        self.lines += 1
        own: EncodedDecision | None = None
        for alternative, ledger in self._filters:
            for encoded in ledger.take(line):
                for part in by_dataset([encoded]):
                    _count(alternative, part, self.lines)
                own = encoded if alternative.own else own
        self._odometers.take(line, self.lines)
        assert own is not None
        return own

    def alternatives(self) -> tuple[Alternative, ...]:
        """Return all alternatives with their counts, filters first."""
        for alternative, ledger in self._filters:
            for dataset, tally in alternative.tallies.items():
                current = ledger.ledger(dataset)
                tally.spent_ratio = 0.0 if current is None else current.spent_ratio
        filters = [alternative for alternative, _ in self._filters]
        return (*filters, *self._impossible, *self._odometers.alternatives())


def _settings(policy: Policy) -> str:
    """Return a filter's own parameters as text."""
    values = {name: getattr(policy, name) for name in PARAMETERS}
    return ", ".join(
        f"{name}={parameter_text(value).replace(',', ' ')}"
        for name, value in values.items()
        if value is not msgspec.UNSET
    )


def _count(alternative: Alternative, encoded: EncodedDecision, line: int) -> None:
    decision = encoded.decision
    if decision.dataset is None:
        return
    if decision.granted:
        alternative.at(decision.dataset).admit()
    elif decision.outcome.is_refusal:
        not_taken = decision.reason is Reason.CLAIM_NOT_ACCEPTED
        alternative.at(decision.dataset).refuse(line, not_taken=not_taken)


class _Odometers:
    """Every odometer, on the policy's own ledger and as a stopping rule.

    The stopping rule runs a mechanism only while the reading that includes it is at most epsilon,
    and stops at the first mechanism that would exceed it. Fixed in advance, such a rule is
    (epsilon, delta)-DP (docs/theory.md section 4).
    """

    def __init__(self, own: Policy) -> None:
        self._epsilon = guaranteed_epsilon(own)
        self._found: dict[str, Alternative] = {}
        self._own: list[OfflineLedger] = []
        self._alone: list[OfflineLedger] = []
        odometers = odometers_for(own)
        in_policy = {type(odometer) for odometer in own.odometers or ()}
        for odometer in odometers:
            name = str(odometer.__struct_config__.tag)
            settings = odometer_settings(odometer)
            self._found[name] = Alternative(
                "odometer",
                name,
                type(odometer) in in_policy,
                settings,
                decides=self._epsilon is not None,
            )
        # This policy accepts every claim that has a rho and never exhausts its budget, so only
        # the odometers stop it.
        alone = Policy(
            filter="zcdp",
            rho=_ENDLESS,
            delta=own.delta_for_claims or "0",
            unit=own.unit,
            neighbours=own.neighbours,
        )
        for start in range(0, len(odometers), MAX_ODOMETERS):
            some = odometers[start : start + MAX_ODOMETERS]
            for policy, ledgers in ((own, self._own), (alone, self._alone)):
                made = resolve(msgspec.structs.replace(policy, odometers=some))
                ledgers.append(OfflineLedger(made, "compare"))

    def take(self, line: bytes, number: int) -> None:
        """Decide one line under the policy's own filter and under the stopping rules."""
        for ledger in self._own:
            for encoded in by_dataset(ledger.take(line)):
                self._read(encoded, ledger)
        for ledger in self._alone:
            for encoded in by_dataset(ledger.take(line)):
                self._rule(encoded, ledger, number)

    def _read(self, encoded: EncodedDecision, ledger: OfflineLedger) -> None:
        decision = encoded.decision
        if decision.dataset is None or decision.odometers is None:
            return
        for name, reading in decision.odometers.items():
            self._found[name].at(decision.dataset).reading = reading

    def _rule(self, encoded: EncodedDecision, ledger: OfflineLedger, number: int) -> None:
        decision = encoded.decision
        dataset = decision.dataset
        if self._epsilon is None or dataset is None:
            return
        current = ledger.ledger(dataset)
        granted = decision.granted
        if current is None or not (granted or decision.outcome.is_refusal):
            return
        for name, reading in zip(current.plan.reader_names, current.readings, strict=True):
            tally = self._found[name].at(dataset)
            if granted and not tally.refused and reading <= self._epsilon:
                tally.admit()
                tally.spent_ratio = float(reading) / float(self._epsilon)
            elif granted or decision.reason is not Reason.CLOSED:
                tally.refuse(number, not_taken=granted and reading == math.inf)

    def alternatives(self) -> tuple[Alternative, ...]:
        return tuple(self._found.values())


def odometer_settings(odometer: AnyOdometer) -> str:
    """Return an odometer's parameters as text."""
    values = msgspec.structs.asdict(odometer)
    parts = values.pop("odometers", ())
    named = [f"{name}={value}" for name, value in values.items()]
    inner = [f"{part.__struct_config__.tag}({odometer_settings(part)})" for part in parts]
    return ", ".join([*named, *inner])
