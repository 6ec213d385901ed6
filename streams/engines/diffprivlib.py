"""diffprivlib: a `BudgetAccountant` that asks the ledger before a tool or a model runs.

Also the claim of a single mechanism, which has no accountant.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NoReturn, Protocol, Self

try:
    from diffprivlib import mechanisms
    from diffprivlib.utils import BudgetError as EngineBudgetError
except ImportError as error:
    from streams.errors import needs_extra

    raise ImportError(needs_extra("this adapter", "diffprivlib", "diffprivlib")) from error

import numpy as np

from accountant.errors import RequestInvalid
from accountant.policy import Neighbours
from streams.engines.diffprivlib_blocks import BlockBudget, NotAsked
from streams.engines.diffprivlib_gaussians import gaussian_delta
from streams.engines.diffprivlib_tools import LOSSES, RunningTool, revealing_argument, running_tool
from streams.engines.rounding import pure_or_approximate
from streams.engines.scoped_claim import ScopedClaim, scoped_claim
from streams.engines.wrong_type import wrong_type
from streams.replies.not_granted import NotGranted
from streams.replies.reply import Reply


def mechanism_claim(mechanism: Any, *, unit: str, neighbours: Neighbours) -> ScopedClaim:
    """Return the claim of one call of a mechanism's `randomise`: its epsilon and delta.

    The delta of a Gaussian is computed from its noise where diffprivlib's is smaller. A
    `monotonic` mechanism has noise for utilities that all move in one direction; a replaced row
    moves them in both, so it loses twice its epsilon.

    Args:
        mechanism: of `diffprivlib.mechanisms`; it is not changed.
        unit, neighbours: what its sensitivity was computed for.

    Raises:
        RequestInvalid: no claim has its parameters, its noise can be known, or it is a `Vector`,
            whose noise is too small.
        TypeError: it is not one of diffprivlib's own mechanisms; a subclass is not.
    """
    kind = type(mechanism)
    if not issubclass(kind, mechanisms.DPMechanism) or vars(mechanisms).get(kind.__name__) != kind:
        how = "Pass an object such as Laplace(epsilon=0.1, sensitivity=1), not its class or name"
        raise wrong_type("mechanism", "one of diffprivlib.mechanisms", mechanism, how)
    if kind is mechanisms.Vector:
        rule = "must not be Vector, which loses more than its epsilon: use another mechanism"
        raise RequestInvalid("mechanism", rule, kind.__name__)
    if mechanism.random_state is not None:
        rule = "must be None: a known seed reveals the noise"
        raise RequestInvalid("random_state", rule, repr(mechanism.random_state))
    epsilon, delta = mechanism.epsilon, mechanism.delta
    if neighbours == "replace" and getattr(mechanism, "monotonic", False):
        epsilon = 2 * epsilon
    if isinstance(mechanism, mechanisms.Gaussian | mechanisms.GaussianDiscrete):
        discrete = kind is mechanisms.GaussianDiscrete
        delta = max(Decimal(delta), gaussian_delta(mechanism, discrete=discrete))
    claim = pure_or_approximate(epsilon, delta)
    return scoped_claim(claim, unit=unit, neighbours=neighbours)


class AskableLedger(Protocol):
    """What a `LedgerBudget` needs of a connected `Accountant`."""

    def ask(self, dataset: str, claim: ScopedClaim, *, analyst: str | None, purpose: str) -> Reply:
        """Ask to run one mechanism on a dataset."""
        ...


class NotAdmitted(NotGranted, EngineBudgetError):  # type: ignore[misc] # the engine has no types
    """The ledger refused a tool of diffprivlib; the tool has not run."""


class LedgerBudget(BlockBudget):
    """A diffprivlib accountant that charges a dataset of the ledger.

    diffprivlib calls `check` before it draws noise and `spend` afterwards. Here `check` asks the
    ledger, once for each call. `spend` uses the grant of `check`. A tool that fails in between has
    used its grant, because its noise may have been visible. diffprivlib checks a tool's arguments
    after `check`, not before.

    Use it as a context. Inside, diffprivlib's warning that a guarantee does not hold (bounds,
    ranges or norms read from the data) is an error. Every tool and model without an `accountant`
    uses this budget; tools and models with another accountant are refused.

    Args:
        ledger: a connected `Accountant`.
        unit: what one row of the data belongs to, such as `person`.
        neighbours: of the dataset. A tool is charged its loss between such neighbours: its epsilon
            or twice that. A tool whose loss is unknown is refused. The table is in
            docs/how-to/diffprivlib.md.
        factors: for tools and models outside the table: their loss between these neighbours, as a
            multiple of their epsilon. The caller is responsible for these.
    """

    def __init__(
        self,
        ledger: AskableLedger,
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
        # Report a wrong unit or relation here, not at the first tool.
        scoped_claim(pure_or_approximate(1, 0), unit=unit, neighbours=neighbours)
        self._ledger, self._dataset = ledger, dataset
        self._analyst, self._purpose = analyst, purpose
        self._unit = unit
        self._neighbours: Neighbours = neighbours
        self._factors = dict(factors or {})
        for name, factor in self._factors.items():
            if name in LOSSES or type(factor) is not int or factor < 1:
                rule = "must map tools outside the table to whole numbers of at least 1"
                raise RequestInvalid("factors", rule, f"{name}: {factor!r}")
        super().__init__()

    def __repr__(self, n_budget_max: int = 5) -> str:
        return f"LedgerBudget({self._dataset!r}, {len(self)} spent, {self._neighbours})"

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: object) -> Self:
        # scikit-learn copies a model's parameters when it clones the model; the budget is shared.
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a LedgerBudget cannot be sent to another process. Run with n_jobs=1, or with threads"
        )

    @property
    def spent_budget(self) -> list[tuple[float, float]]:
        """The (epsilon, delta) of each tool that was granted and has finished."""
        with self._lock:
            return self._taken.copy()

    @property
    def unanswered(self) -> list[tuple[float, float]]:
        """The (epsilon, delta) of each tool that was granted and has not finished."""
        with self._lock:
            return self._granted.copy()

    def check(self, epsilon: float, delta: float) -> bool:
        """Ask the ledger for the loss of the calling tool; return True once it is granted.

        Raises: NotAdmitted: the ledger refused. NotAsked: outside the budget's `with`, or a tool
            or argument of unknown loss. RequestInvalid: no claim has these parameters.
            Unanswered, Refused: see `ask`.
        """
        if not self.entered:
            raise NotAsked("nothing was charged: use the budget as a context, `with budget:`")
        claim = pure_or_approximate(epsilon, delta)
        tool = running_tool()
        if revealing := revealing_argument(tool):
            raise NotAsked(f"nothing was charged: {tool.name} has {revealing}")
        factor = self._factor(tool)
        if factor > 1:
            if delta:
                raise NotAsked(
                    "nothing was charged: a tool with a delta has no claim for a multiple of "
                    "its loss. Use a tool without a delta"
                )
            claim = pure_or_approximate(epsilon * factor, 0)
        asked = scoped_claim(claim, unit=self._unit, neighbours=self._neighbours)
        reply = self._ledger.ask(self._dataset, asked, analyst=self._analyst, purpose=self._purpose)
        if not reply.granted:
            raise NotAdmitted(reply)
        if tool.name:
            # Some tools draw from numpy's own generator, whose seed a program may have set.
            np.random.seed()
        with self._lock:
            self._granted.append((epsilon, delta))
        return True

    def _factor(self, tool: RunningTool) -> int:
        """Return the loss of a tool as a multiple of its epsilon; 1 for a program's own call."""
        if not tool.name:
            return 1
        loss = LOSSES.get(tool.name)
        known = self._factors.get(tool.name) if loss is None else loss.under(self._neighbours)
        if known is not None:
            return known
        states = f", or state it: LedgerBudget(..., factors={{{tool.name!r}: TIMES_ITS_EPSILON}})"
        raise NotAsked(
            f"nothing was charged: the loss of {tool.name} between neighbours of "
            f"{self._neighbours} is not known. Use another tool or relation (the table is in "
            f"docs/how-to/diffprivlib.md){states if loss is None else ''}"
        )

    def spend(self, epsilon: float, delta: float) -> Self:
        """Use a grant of `check` for these parameters.

        Raises: NotAsked: there is none.
        """
        with self._lock:
            if (epsilon, delta) not in self._granted:
                raise NotAsked(
                    f"epsilon {epsilon}, delta {delta} was spent, but never granted. "
                    "Call `check` first"
                )
            self._granted.remove((epsilon, delta))
            self._taken.append((epsilon, delta))
        return self

    def remaining(self, k: int = 1) -> NoReturn:
        """Raise: the remaining budget is not a pair (epsilon, delta). Ask the ledger for it."""
        raise NotImplementedError(
            f"the remaining budget is not a pair (epsilon, delta). Read "
            f"ledger.dataset({self._dataset!r}).left, or try a call with "
            f"ledger.cost({self._dataset!r}, 'pure:EPSILON')"
        )
