"""The reply to one request. A program cannot mistake a refusal for a grant."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from decimal import Decimal
from functools import wraps
from types import TracebackType
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

from accountant.display.approvals import waiting_words, waits
from accountant.display.current_dataset import CurrentDataset, owner_words
from accountant.display.endings import ending_words
from accountant.display.numbers import counting_cost, spent_line
from accountant.display.reasons import UNNAMED_OWNER
from accountant.display.refusals import refusal_words, when_more
from accountant.partition import hash_of
from accountant.records import Decision, First, encode
from accountant.records.outcomes import Outcome, Reason
from accountant.records.parts import deciding_part, parts_of
from accountant.records.receipts import Receipt
from accountant.views.limit_views import ScopeView
from streams.notebooks.display import remaining_words, reply_html
from streams.replies.shown_amounts import RemainingAmounts, SpentAmounts

T = TypeVar("T")
Parameters = ParamSpec("Parameters")

_NO_TRUTH_VALUE: Final = (
    "a reply is neither true nor false. Read its `granted`, or use `ledger.grant(...)` or "
    "`ledger.release(...)`, which raise if the request is not granted"
)


class RefusalDetails(NamedTuple):
    """What a client reads to explain a refusal.

    Attributes:
        current: the dataset: to compare the claim with, and which owner to ask.
        levels: the limits of the request's analyst.
        hint: a similar name, or another filter that would grant.
    """

    current: CurrentDataset | None = None
    levels: Sequence[ScopeView] = ()
    hint: str = ""


class Reply:
    """The reply to `ask`. Amounts are exact `Decimal`s of the log; displays round them.

    Attributes:
        granted: this call is a grant of one run of the mechanism. A repeat of the caller's own
            id is not a grant, even if the first decision was.
        repeated: the id was decided before; `first` is that decision.
        request_id: to ask again with; it is never charged twice.
        decision: the record in the log; of a request over several datasets, as the dataset sees it
            that refused, or the first.
        whole: the record itself.
        parts: of a request over several datasets, the decision as each of them sees it.
        first: the first decision on the id, of a repeat or a conflict.
        why: of a refusal, the reason in a sentence and the next step; else "".
        waiting: of a request that needs too much budget, when more comes, or why waiting does not
            help; of one that waits for an approval, who can give it; else "".
        hint: the end of `why` that is no part of the decision: the name that was perhaps meant, or
            a filter that would grant; else "".
    """

    __slots__ = (
        *("_record", "decision", "first", "granted", "hint", "parts", "repeated", "request_id"),
        *("waiting", "whole", "why"),
    )

    def __init__(
        self,
        decision: Decision,
        request_id: str,
        *,
        own_repeat: bool = False,
        record: bytes | None = None,
        current: CurrentDataset | None = None,
        levels: Sequence[ScopeView] = (),
        hint: str = "",
    ) -> None:
        """Make a reply of a decision.

        Args:
            own_repeat: this call's own retry caused the repeat, so the first decision is the
                reply.
            record: the bytes of the log's record, if known.
            current: the dataset, to compare a refused claim with, and to say which owner to ask.
            levels: the limits of the request's analyst, to explain a refusal.
            hint: to add to the reason of a refusal, such as the name of a similar dataset.
        """
        self.whole = decision
        self.parts = parts_of(decision)
        decision = deciding_part(decision, self.parts)
        self.decision = decision
        self.request_id = request_id
        self.first: First | None = decision.first
        again = decision.outcome.is_repeat
        self.repeated = again and not own_repeat
        own = self.first if again and own_repeat else decision
        self.granted = own is not None and own.granted
        self._record = record
        self.hint = hint
        words = refusal_words(decision, levels=levels, current=current)
        self.why = " ".join(filter(None, (words, hint)))
        owner = UNNAMED_OWNER if current is None else owner_words(current.members)
        more = when_more(decision, owner=owner, current=current)
        self.waiting = waiting_words(decision, owner) if more is None else more.text

    def __getstate__(self) -> dict[str, Any]:  # protocols 0 and 1 of pickle do not support slots
        return {name: getattr(self, name) for name in self.__slots__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)

    @property
    def outcome(self) -> Outcome:
        """The outcome; if the call's own retry was a repeat, the first outcome."""
        decision = self.decision
        if decision.outcome.is_repeat and not self.repeated and self.first is not None:
            return self.first.outcome
        return decision.outcome

    @property
    def reason(self) -> Reason | None:
        """The reason code of a refusal."""
        decision = self.decision
        if decision.outcome.is_repeat and not self.repeated and self.first is not None:
            return self.first.reason
        return decision.reason

    @property
    def waits(self) -> bool:
        """Whether the request waits for an owner's approval; nothing is charged yet."""
        return waits(self.decision)

    @property
    def dataset(self) -> str | None:
        """The dataset's name."""
        return self.decision.dataset

    @property
    def cost(self) -> dict[str, Decimal]:
        """The charge, by sum; of a repeat, the first charge. Empty if nothing was charged."""
        cost = self.decision.cost
        if cost is None and self.decision.outcome.is_repeat and self.first is not None:
            cost = self.first.cost
        return SpentAmounts(_decimals(cost))

    @property
    def asked(self) -> dict[str, Decimal]:
        """What a refused request would have cost, by sum."""
        return SpentAmounts(_decimals(self.decision.asked))

    @property
    def left(self) -> dict[str, Decimal]:
        """The remaining budget of the dataset after this decision, by sum; empty for a repeat.

        A sum that the filter no longer counts is 0 here; displays leave it out.
        """
        return RemainingAmounts(_decimals(self.decision.left))

    @property
    def fits(self) -> str | None:
        """Of a request that needs too much budget, the largest claim of its kind that would fit."""
        return self.decision.fits

    @property
    def crossed(self) -> tuple[str, ...]:
        """The alert thresholds that this decision is the first to reach."""
        return self.decision.crossed

    @property
    def hash(self) -> str:
        """Hash of the log's record, `sha256:...`; of a repeat, of the first decision."""
        if self.first is not None and self.decision.outcome.is_repeat:
            return self.first.hash
        if self.decision.part_of is not None:
            return self.decision.part_of
        return hash_of(encode(self.decision) if self._record is None else self._record)

    @property
    def receipt(self) -> Receipt:
        """The position of the log's record and its hash; of a repeat, those of the first decision.

        Store it to check later that the log still has the record: `accountant audit --receipt`.
        """
        source, number = self.decision.source, self.decision.partition_sequence
        if self.first is not None and self.decision.outcome.is_repeat:
            number = self.first.partition_sequence
        partition = 0 if source is None else source.partition
        return Receipt(partition=partition, partition_sequence=number, hash=self.hash)

    def __bool__(self) -> bool:
        charged = (
            f". The request was granted and charged; its request_id is {self.request_id}"
            if self.granted
            else ""
        )
        raise TypeError(f"{_NO_TRUTH_VALUE}{charged}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Reply):
            return NotImplemented
        return (self.decision, self.granted) == (other.decision, other.granted)

    def __hash__(self) -> int:
        return hash(self.hash)

    def _repr_html_(self) -> str:
        return reply_html(self)

    def _counted_cost(self) -> Mapping[str, str]:
        """Return the cost of the sums that the budget limits."""
        cost = {name: f"{amount:f}" for name, amount in self.cost.items()}
        return counting_cost(cost, self.decision.left, self.decision.totals)

    def __repr__(self) -> str:
        what = f"{self.outcome}" if self.reason is None else f"{self.outcome}, {self.reason}"
        remaining = remaining_words(self.decision)
        if remaining and self.decision.left_at:
            remaining = f"{remaining} of the dataset"
        shown = {
            "granted": self.granted,
            "why": repr(self.why) if self.why else "",
            "cost": spent_line(self._counted_cost()),
            "fits": self.fits,
            "ends": repr(ends) if (ends := ending_words(self.decision)) else "",
            "request_id": repr(self.request_id),
        }
        head = f"Reply({what}, {remaining}" if remaining else f"Reply({what}"
        fields = [f"{name}={value}" for name, value in shown.items() if value not in (None, "")]
        return ", ".join([head, *fields]) + ")"


def _decimals(amounts: dict[str, str] | None) -> dict[str, Decimal]:
    return {} if amounts is None else {name: Decimal(text) for name, text in amounts.items()}


class Call(Coroutine[Any, Any, T]):
    """A call of the async client, which starts when it is awaited.

    Works with `await`, `asyncio.create_task` and `asyncio.gather`. Unlike a plain coroutine, it
    has no truth value, and names the missing `await` where a reply's attribute is read.
    """

    __slots__ = ("_coroutine",)

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine.__await__()

    def send(self, value: Any, /) -> Any:
        return self._coroutine.send(value)

    def throw(
        self,
        typ: type[BaseException] | BaseException,
        val: BaseException | object = None,
        tb: TracebackType | None = None,
        /,
    ) -> Any:
        if isinstance(typ, BaseException):
            return self._coroutine.throw(typ)
        return self._coroutine.throw(typ, val, tb)

    def close(self) -> None:
        self._coroutine.close()

    def __bool__(self) -> bool:
        raise TypeError("this call was not awaited. Write `(await ledger.ask(...)).granted`")

    def __getattr__(self, name: str) -> Any:
        if name in _REPLY_ATTRIBUTES:
            raise AttributeError(
                f"this call was not awaited. Write `(await ledger.ask(...)).{name}`"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


_REPLY_ATTRIBUTES: Final = {name for name in dir(Reply) if not name.startswith("_")}


def awaitable_call(
    function: Callable[Parameters, Coroutine[Any, Any, T]],
) -> Callable[Parameters, Call[T]]:
    """Make an asynchronous function return a `Call`."""

    @wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Call[T]:
        return Call(function(*args, **kwargs))

    return call
