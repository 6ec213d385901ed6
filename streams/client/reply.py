"""What a ledger replies to one request, so that a program cannot take a refusal for a grant."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from decimal import Decimal
from functools import wraps
from types import TracebackType
from typing import Any, Final, ParamSpec, TypeVar

from accountant.display.refusals import refusal_words
from accountant.partition import hash_of
from accountant.records import Decision, First, encode
from accountant.records.outcomes import Outcome, Reason
from accountant.records.receipts import Receipt
from streams.client.notebooks.display import reply_html

T = TypeVar("T")
Parameters = ParamSpec("Parameters")

_NO_TRUTH_VALUE: Final = (
    "a reply is neither true nor false: read its `granted`, or use `ledger.grant(...)` or "
    "`ledger.release(...)`, which raise where nothing was granted"
)


class Reply:
    """What the ledger replies to `ask`; every amount is the exact `Decimal` of the log.

    Attributes:
        granted: whether this call is a grant, of one run of the mechanism. A repeat of an id
            that the caller gave is none, even where the first one was.
        repeated: the id was decided before; `first` has what was decided then.
        request_id: to ask again with, which is never charged twice.
        decision: the log's record.
        first: of a repeat and of a conflict, the first decision on the id.
    """

    __slots__ = ("_record", "decision", "first", "granted", "repeated", "request_id")

    def __init__(
        self,
        decision: Decision,
        request_id: str,
        *,
        own_repeat: bool = False,
        record: bytes | None = None,
    ) -> None:
        """Make it.

        Args:
            own_repeat: a repeat that this very call's own retry has caused: its first decision
                is the reply.
            record: the log's record, where its bytes are known.
        """
        self.decision = decision
        self.request_id = request_id
        self.first: First | None = decision.first
        again = decision.outcome is Outcome.REPEATED
        self.repeated = again and not own_repeat
        own = self.first if again and own_repeat else decision
        self.granted = own is not None and own.granted
        self._record = record

    def __getstate__(self) -> dict[str, Any]:  # the oldest protocols of pickle know no slots
        return {name: getattr(self, name) for name in self.__slots__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)

    @property
    def outcome(self) -> Outcome:
        """The outcome; of a repeat that the call's own retry caused, the first one."""
        decision = self.decision
        if decision.outcome is Outcome.REPEATED and not self.repeated and self.first is not None:
            return self.first.outcome
        return decision.outcome

    @property
    def reason(self) -> Reason | None:
        """The reason code of a refusal."""
        decision = self.decision
        if decision.outcome is Outcome.REPEATED and not self.repeated and self.first is not None:
            return self.first.reason
        return decision.reason

    @property
    def dataset(self) -> str | None:
        """The dataset's name."""
        return self.decision.dataset

    @property
    def cost(self) -> dict[str, Decimal]:
        """What was charged, by sum; of a repeat, at first. Empty where nothing was."""
        cost = self.decision.cost
        if cost is None and self.decision.outcome is Outcome.REPEATED and self.first is not None:
            cost = self.first.cost
        return _decimals(cost)

    @property
    def asked(self) -> dict[str, Decimal]:
        """What a refused request would have cost, by sum."""
        return _decimals(self.decision.asked)

    @property
    def left(self) -> dict[str, Decimal]:
        """What is left of the dataset's budget after this decision, by sum; a repeat tells none."""
        return _decimals(self.decision.left)

    @property
    def fits(self) -> str | None:
        """Of a refusal for want of budget, the largest claim of its kind that would be granted."""
        return self.decision.fits

    @property
    def crossed(self) -> tuple[str, ...]:
        """The alert thresholds that this decision is the first to reach."""
        return self.decision.crossed

    @property
    def hash(self) -> str:
        """Hash of the log's record, `sha256:...`; of a repeat, of the first decision."""
        if self.first is not None and self.decision.outcome is Outcome.REPEATED:
            return self.first.hash
        return hash_of(encode(self.decision) if self._record is None else self._record)

    @property
    def receipt(self) -> Receipt:
        """The place of the log's record and its hash; of a repeat, those of the first decision.

        Kept, it shows later whether the log still holds it: `accountant audit --receipt`.
        """
        source, number = self.decision.source, self.decision.partition_sequence
        if self.first is not None and self.decision.outcome is Outcome.REPEATED:
            number = self.first.partition_sequence
        partition = 0 if source is None else source.partition
        return Receipt(partition=partition, partition_sequence=number, hash=self.hash)

    def __bool__(self) -> bool:
        raise TypeError(_NO_TRUTH_VALUE)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Reply):
            return NotImplemented
        return (self.decision, self.granted) == (other.decision, other.granted)

    def __hash__(self) -> int:
        return hash(self.hash)

    def _repr_html_(self) -> str:
        return reply_html(self)

    def __repr__(self) -> str:
        what = f"{self.outcome}" if self.reason is None else f"{self.outcome}, {self.reason}"
        parts = [f"Reply({what}", f"granted={self.granted}", f"request_id={self.request_id!r}"]
        for name in ("cost", "left", "fits"):
            value = getattr(self, name)
            if value:
                text = value if isinstance(value, str) else _format_amounts(value)
                parts.append(f"{name}={text}")
        if words := refusal_words(self.decision):
            parts.append(f"why={words!r}")
        return ", ".join(parts) + ")"


def _decimals(amounts: dict[str, str] | None) -> dict[str, Decimal]:
    return {} if amounts is None else {name: Decimal(text) for name, text in amounts.items()}


def _format_amounts(amounts: dict[str, Decimal]) -> str:
    return "{" + ", ".join(f"{name}: {amount}" for name, amount in amounts.items()) + "}"


class Call(Coroutine[Any, Any, T]):
    """A call that is under way once it is awaited; before that it is nothing, not even true.

    A coroutine like any other for `await`, `asyncio.create_task` and `asyncio.gather`.
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
        raise TypeError("this call was not awaited: write `(await ledger.ask(...)).granted`")

    def __getattr__(self, name: str) -> Any:
        if name in _REPLY_ATTRIBUTES:
            raise AttributeError(f"this call was not awaited: `(await ledger.ask(...)).{name}`")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


_REPLY_ATTRIBUTES: Final = {name for name in dir(Reply) if not name.startswith("_")}


def awaitable_call(
    function: Callable[Parameters, Coroutine[Any, Any, T]],
) -> Callable[Parameters, Call[T]]:
    """Return an asynchronous function whose calls are nothing before they are awaited."""

    @wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Call[T]:
        return Call(function(*args, **kwargs))

    return call
