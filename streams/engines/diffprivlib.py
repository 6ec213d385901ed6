"""diffprivlib: a `BudgetAccountant` that asks the ledger before a tool or a model runs.

And the claim of a single mechanism, which takes no accountant.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, NoReturn, Self

try:
    from diffprivlib import mechanisms
    from diffprivlib.utils import BudgetError as EngineBudgetError
except ImportError as error:
    raise ImportError("this adapter needs diffprivlib: install the extra `diffprivlib`") from error

import numpy as np

from accountant.errors import RequestInvalid
from accountant.policy import Neighbours
from streams.client.accountant import Accountant
from streams.client.grants import NotGranted
from streams.client.requests import ScopedClaim
from streams.engines.diffprivlib_blocks import BlockBudget, NotAsked
from streams.engines.diffprivlib_tools import LOSSES, RunningTool, revealing_argument, running_tool
from streams.engines.rounding import pure_or_approximate, scoped_claim


def mechanism_claim(mechanism: Any, *, unit: str, neighbours: Neighbours) -> ScopedClaim:
    """Return what one call of a mechanism's `randomise` promises: its epsilon and delta.

    Args:
        mechanism: of `diffprivlib.mechanisms`; its parameters stay as they are.
        unit, neighbours: what its sensitivity was computed for.

    Raises:
        RequestInvalid: no claim has its parameters, its noise can be known, or it is a `Vector`,
            whose noise is too small.
        TypeError: it is no mechanism of diffprivlib's own; a subclass is not.
    """
    kind = type(mechanism)
    if not issubclass(kind, mechanisms.DPMechanism) or vars(mechanisms).get(kind.__name__) != kind:
        raise TypeError(f"must be one of diffprivlib.mechanisms, got {kind.__name__}")
    if kind is mechanisms.Vector:
        rule = "must not be Vector: it loses more than its epsilon. Use another mechanism"
        raise RequestInvalid("mechanism", rule, kind.__name__)
    if mechanism.random_state is not None:
        rule = "must be None: whoever knows it knows the noise"
        raise RequestInvalid("random_state", rule, repr(mechanism.random_state))
    claim = pure_or_approximate(mechanism.epsilon, mechanism.delta)
    return scoped_claim(claim, unit=unit, neighbours=neighbours)


class NotAdmitted(NotGranted, EngineBudgetError):  # type: ignore[misc] # the engine has no types
    """The ledger did not grant what a tool of diffprivlib was about to spend; it has not run."""


class LedgerBudget(BlockBudget):
    """A budget of diffprivlib that is a dataset of the ledger.

    diffprivlib calls `check` before it looks at noise and `spend` once it has drawn it. Here,
    `check` asks the ledger, once for each call, and `spend` asks for nothing: it takes the grant
    that `check` was given. A tool that fails in between has cost its grant, for nobody can tell
    what of its noise was seen; its arguments are looked at after `check`, not before.

    It is used as a context. Within it diffprivlib's own warning that a promise does not hold
    (bounds, ranges or norms that were read off the data) is an error, and it is the budget of every
    tool and model that is made without an `accountant`. Those that have another are refused.

    Args:
        ledger: a connected `Accountant`.
        unit: what one row of the data belongs to, such as `person`.
        neighbours: of the dataset. A tool is charged what it loses between those: its epsilon, or
            twice that; where nobody can say, it is refused. The table is in
            docs/how-to/diffprivlib.md.
        factors: of tools and models that are not in the table, how many times their epsilon they
            lose between these neighbours, on the caller's own word.
    """

    def __init__(
        self,
        ledger: Accountant,
        dataset: str,
        *,
        unit: str,
        neighbours: Neighbours,
        analyst: str | None = None,
        purpose: str = "",
        factors: Mapping[str, int] | None = None,
    ) -> None:
        self._taken: list[tuple[float, float]] = []
        self._granted: list[tuple[float, float]] = []
        self._lock = threading.Lock()
        # A unit or relation that is wrong is said here, and not by the first tool.
        scoped_claim(pure_or_approximate(1, 0), unit=unit, neighbours=neighbours)
        self._ledger, self._dataset = ledger, dataset
        self._analyst, self._purpose = analyst, purpose
        self._unit = unit
        self._neighbours: Neighbours = neighbours
        self._factors = dict(factors or {})
        for name, factor in self._factors.items():
            if name in LOSSES or type(factor) is not int or factor < 1:
                rule = "must give whole numbers from 1 on to tools that are not in the table"
                raise RequestInvalid("factors", rule, f"{name}: {factor!r}")
        super().__init__()

    def __repr__(self, n_budget_max: int = 5) -> str:
        return f"LedgerBudget({self._dataset!r}, {len(self)} spent, {self._neighbours})"

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: object) -> Self:
        # scikit-learn copies a model's parameters as it clones the model: the budget is one.
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "LedgerBudget cannot be sent to another process: run with n_jobs=1, or with threads"
        )

    @property
    def spent_budget(self) -> list[tuple[float, float]]:
        """The (epsilon, delta) of each tool that was granted and came to its end."""
        with self._lock:
            return self._taken.copy()

    @property
    def unanswered(self) -> list[tuple[float, float]]:
        """The (epsilon, delta) of each tool that was granted and has not come to its end."""
        with self._lock:
            return self._granted.copy()

    def check(self, epsilon: float, delta: float) -> bool:
        """Return True once the ledger has granted what the tool that calls this loses.

        Raises: NotAdmitted: it did not. NotAsked: outside of the budget's `with`, or for a tool
            or an argument of which nobody can say what it loses. RequestInvalid: no claim has
            these parameters. Unanswered, Refused: as `ask`.
        """
        if not self.entered:
            raise NotAsked("nothing was asked for: use the budget as a context, `with budget:`")
        claim = pure_or_approximate(epsilon, delta)
        tool = running_tool()
        if revealing := revealing_argument(tool):
            raise NotAsked(f"nothing was asked for: {tool.name} has {revealing}")
        factor = self._factor(tool)
        if factor > 1:
            if delta:
                raise NotAsked("nothing was asked for: a delta is not charged several times")
            claim = pure_or_approximate(epsilon * factor, 0)
        asked = scoped_claim(claim, unit=self._unit, neighbours=self._neighbours)
        reply = self._ledger.ask(self._dataset, asked, analyst=self._analyst, purpose=self._purpose)
        if not reply.granted:
            raise NotAdmitted(reply)
        if tool.name:
            # Some draw of numpy's own generator, whose seed a program may have set.
            np.random.seed()
        with self._lock:
            self._granted.append((epsilon, delta))
        return True

    def _factor(self, tool: RunningTool) -> int:
        """Return how many times its epsilon a tool loses; 1 of a program's own call."""
        if not tool.name:
            return 1
        loss = LOSSES.get(tool.name)
        known = self._factors.get(tool.name) if loss is None else loss.under(self._neighbours)
        if known is not None:
            return known
        states = f", or state it: LedgerBudget(..., factors={{{tool.name!r}: TIMES_ITS_EPSILON}})"
        raise NotAsked(
            f"nothing was asked for: what {tool.name} loses between neighbours of "
            f"{self._neighbours} is not known. Use another tool or relation (the table is in "
            f"docs/how-to/diffprivlib.md){states if loss is None else ''}"
        )

    def spend(self, epsilon: float, delta: float) -> Self:
        """Take a grant that `check` was given for these parameters.

        Raises: NotAsked: there is none.
        """
        with self._lock:
            if (epsilon, delta) not in self._granted:
                raise NotAsked(f"epsilon {epsilon}, delta {delta} was spent, but never granted")
            self._granted.remove((epsilon, delta))
            self._taken.append((epsilon, delta))
        return self

    def remaining(self, k: int = 1) -> NoReturn:
        """Raise: what is left is not of the form (epsilon, delta), but what the ledger says."""
        raise NotImplementedError(
            f"ask the ledger what is left: ledger.dataset({self._dataset!r}).left, or what a call "
            f"would be told: ledger.cost({self._dataset!r}, 'pure:EPSILON')"
        )
