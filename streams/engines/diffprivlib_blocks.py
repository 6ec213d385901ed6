"""The blocks of budgets that are open, and what they change in diffprivlib until they are left.

diffprivlib has one default accountant for all threads, and a model keeps the one that it was made
with. While a block is open no other accountant is checked or spent with: that would be uncharged.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from contextvars import ContextVar
from typing import Any, NoReturn, Self

try:
    from diffprivlib import BudgetAccountant
    from diffprivlib.utils import BudgetError as EngineBudgetError
    from diffprivlib.utils import PrivacyLeakWarning
except ImportError as error:
    raise ImportError("this adapter needs diffprivlib: install the extra `diffprivlib`") from error

from accountant.errors import BudgetError
from streams.engines.diffprivlib_tools import running_tool


class NotAsked(BudgetError, EngineBudgetError):  # type: ignore[misc] # the engine has no types
    """A tool was about to run, or to end, of which the ledger had not been asked."""


class BlockBudget(BudgetAccountant):  # type: ignore[misc] # the engine has no types
    """An accountant that is used as a context: the block of `with`."""

    def __enter__(self) -> Self:
        with _lock:
            if self in _outer:
                raise NotAsked("the budget is in use as a context already")
            if not _outer:
                _change()
            own = _open_of(_own.get())
            _outer[self] = own[-1] if own else None
            _own.set((*own, self))
            self.set_default()
        return self

    def __exit__(self, *raised: Any) -> None:
        with _lock:
            if self not in _outer:
                return
            del _outer[self]
            _own.set(_open_of(_own.get()))
            if _outer:
                next(reversed(_outer)).set_default()
            else:
                _changes.close()  # puts everything back

    @property
    def entered(self) -> bool:
        """Whether its block is open."""
        return self in _outer


_lock = threading.RLock()
_outer: dict[BlockBudget, BlockBudget | None] = {}  # of each open block, the one around it
_own: ContextVar[tuple[BlockBudget, ...]] = ContextVar("own blocks of a thread or task", default=())
_changes = ExitStack()
_load_default = BudgetAccountant.load_default


def _open_of(blocks: tuple[BlockBudget, ...]) -> tuple[BlockBudget, ...]:
    return tuple(each for each in blocks if each in _outer)


def _change() -> None:
    _changes.callback(delattr, PrivacyLeakWarning, "__init__")
    PrivacyLeakWarning.__init__ = _raise_leak
    _changes.callback(setattr, BudgetAccountant, "_default", BudgetAccountant.pop_default())
    _changes.callback(setattr, BudgetAccountant, "load_default", staticmethod(_load_default))
    BudgetAccountant.load_default = staticmethod(_default_of_block)
    # Here, and not in place of the two methods: subclasses have their own.
    _changes.callback(delattr, BudgetAccountant, "__getattribute__")
    BudgetAccountant.__getattribute__ = _refuse_others


def _raise_leak(_: Any, *given: Any) -> NoReturn:
    """Raise the warning as it is made: no filter of a program hides it, in any thread."""
    raise RuntimeWarning.__new__(PrivacyLeakWarning, *given)


def _default_of_block(accountant: Any) -> Any:
    """Return the accountant of a tool: the one it was given, or that of its own block.

    A thread that was started within a block has none of its own, and takes the only one there is.
    """
    default = BudgetAccountant._default
    if accountant is not None or not (default is None or default in _outer):
        return _load_default(accountant)
    with _lock:
        own = _open_of(_own.get())[-1:] or tuple(_outer.keys() - _outer.values())
    if len(own) != 1:
        raise NotAsked("several threads have a budget in use: give this tool `accountant=`")
    return own[0]


def _refuse_others(accountant: Any, name: str) -> Any:
    """Refuse to check or to spend with an accountant that asks no ledger, while a block is open.

    A model that a budget is charged for may: diffprivlib gives its parts accountants of their own.
    """
    if name in {"check", "spend"} and not isinstance(accountant, BlockBudget):
        charged = running_tool().accountant
        if not (isinstance(charged, BlockBudget) and charged.entered):
            raise NotAsked(
                "nothing was asked for: a budget is in use, and this tool or model has another "
                f"accountant ({type(accountant).__name__}). Make the model within the block, or "
                "give `accountant=` the budget"
            )
    return object.__getattribute__(accountant, name)
