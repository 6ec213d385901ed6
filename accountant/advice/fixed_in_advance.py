"""How many requests of a log fit where each is fixed in advance: the optimum, beside filters.

It bounds no sequence whose parameters or length depend on earlier answers, so it is no filter: it
shows what being adaptive costs at most. Theorem: docs/theory.md section 6.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Final

from accountant.advice.compare import Alternative, ComparisonTally
from accountant.advice.optimal_mixed import OptimalComposition, Parts
from accountant.advice.tune import guaranteed_epsilon
from accountant.claims import Claim, atoms
from accountant.claims.promises import promise
from accountant.policy import Policy, resolve
from accountant.records import Decision
from accountant.records.encoded_decision import EncodedDecision
from accountant.records.outcomes import Reason
from accountant.records.request_names import claim_of

NAME: Final = "optimal_mixed"
_FOR_ITS_COST: Final = frozenset(
    {Reason.EXHAUSTED, Reason.ABOVE_CAP, Reason.CLAIM_NOT_ACCEPTED, Reason.HALTED}
)


class FixedInAdvance:
    """The optimal composition of each dataset's requests, each by its epsilon and delta alone.

    A request that fits with those that were admitted before is admitted, as filters do.

    Args:
        policy: as its owner wrote it.
    """

    def __init__(self, policy: Policy) -> None:
        self._composed: dict[str, OptimalComposition] = {}
        self._tallies: dict[str, ComparisonTally] = {}
        self._epsilon = guaranteed_epsilon(resolve(policy))
        self._delta = Decimal(policy.delta)
        self._why_not = ""
        try:
            self._new()
        except ValueError as error:
            self._why_not = str(error)

    @property
    def alternative(self) -> Alternative:
        """Its counts by dataset."""
        return Alternative("comparator", NAME, why_not=self._why_not, tallies=self._tallies)

    def take(self, decided: EncodedDecision, line: int) -> None:
        """Count a request; one that a filter has refused for its cost may fit here.

        Args:
            line: its number, from 1.
        """
        decision = decided.decision
        dataset = decision.dataset
        if self._why_not or dataset is None:
            return
        if not decision.granted and decision.reason not in _FOR_ITS_COST:
            if decision.outcome.is_refusal:
                self._tallies.setdefault(dataset, ComparisonTally()).refuse(line)
            return
        try:
            self._count(decision, dataset, line)
        except ValueError as error:  # too many
            self._why_not = str(error)

    def _count(self, decision: Decision, dataset: str, line: int) -> None:
        composed = self._composed.get(dataset) or self._composed.setdefault(dataset, self._new())
        tally = self._tallies.setdefault(dataset, ComparisonTally())
        claim = claim_of(decision)
        assert claim is not None  # it was priced
        parts = _parts_of(claim)
        if parts is None:
            tally.refuse(line, not_taken=True)
        elif composed.fits(parts, self._delta):
            tally.admit()
        else:
            tally.refuse(line)
        if self._delta:
            tally.spent_ratio = composed.delta / float(self._delta)

    def _new(self) -> OptimalComposition:
        if self._epsilon is None:
            raise ValueError("the policy promises no epsilon")
        return OptimalComposition(self._epsilon)


def _parts_of(claim: Claim) -> Parts | None:
    """Return epsilons and deltas, None if randomized response dominates not each of them."""
    parts: list[tuple[Decimal | Fraction, Decimal | Fraction, int]] = []
    for atom, times in atoms(claim):
        worth = promise(atom)
        if worth.epsilon is None or worth.ex_post:
            return None
        parts.append((worth.epsilon, worth.delta, times))
    return parts
