"""The open `with` blocks of budgets, and their changes to diffprivlib until they close.

diffprivlib has one default accountant for all threads, and a model keeps the accountant that it
was made with. While a block is open, other accountants refuse to work: they would not charge the
ledger.
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
    from streams.errors import needs_extra

    raise ImportError(needs_extra("this adapter", "diffprivlib", "diffprivlib")) from error

from accountant.errors import BudgetError
from streams.engines.diffprivlib_tools import running_tool


class NotAsked(BudgetError, EngineBudgetError):  # type: ignore[misc] # the engine has no types
    """A tool was about to run or finish without a request to the ledger."""


class BlockBudget(BudgetAccountant):  # type: ignore[misc] # the engine has no types
    """An accountant that works inside its `with` block only."""

    def __enter__(self) -> Self:
        with _lock:
            if self in _outer:
                raise NotAsked(
                    "this budget is already in use as a context. Use one `with` block at a time"
                )
            if not _outer:
                _patch_diffprivlib()
            own = _still_open(_own.get())
            _outer[self] = own[-1] if own else None
            _own.set((*own, self))
            self.set_default()
        return self

    def __exit__(self, *raised: Any) -> None:
        with _lock:
            if self not in _outer:
                return
            del _outer[self]
            _own.set(_still_open(_own.get()))
            if _outer:
                next(reversed(_outer)).set_default()
            else:
                _changes.close()  # restores diffprivlib

    @property
    def entered(self) -> bool:
        """Whether its block is open."""
        return self in _outer


_lock = threading.RLock()
_outer: dict[BlockBudget, BlockBudget | None] = {}  # each open block, and the block around it
_own: ContextVar[tuple[BlockBudget, ...]] = ContextVar("own blocks of a thread or task", default=())
_changes = ExitStack()
_load_default = BudgetAccountant.load_default


def _still_open(blocks: tuple[BlockBudget, ...]) -> tuple[BlockBudget, ...]:
    return tuple(each for each in blocks if each in _outer)


def _patch_diffprivlib() -> None:
    _changes.callback(delattr, PrivacyLeakWarning, "__init__")
    PrivacyLeakWarning.__init__ = _raise_leak_warning
    _changes.callback(setattr, BudgetAccountant, "_default", BudgetAccountant.pop_default())
    _changes.callback(setattr, BudgetAccountant, "load_default", staticmethod(_load_default))
    BudgetAccountant.load_default = staticmethod(_block_default)
    # Patch attribute access, not the two methods: subclasses override those.
    _changes.callback(delattr, BudgetAccountant, "__getattribute__")
    BudgetAccountant.__getattribute__ = _refuse_others


def _raise_leak_warning(_: Any, *args: Any) -> NoReturn:
    """Raise the warning when it is made, so that no warnings filter can hide it in any thread."""
    raise RuntimeWarning.__new__(PrivacyLeakWarning, *args)


def _block_default(accountant: Any) -> Any:
    """Return the accountant of a tool: its argument, or that of its own block.

    A thread that was started within a block has no block of its own. It uses the only open one.
    """
    default = BudgetAccountant._default
    if accountant is not None or not (default is None or default in _outer):
        return _load_default(accountant)
    with _lock:
        own = _still_open(_own.get())[-1:] or tuple(_outer.keys() - _outer.values())
    if len(own) != 1:
        raise NotAsked("several threads have a budget in use. Pass `accountant=` to this tool")
    return own[0]


def _refuse_others(accountant: Any, name: str) -> Any:
    """Refuse `check` and `spend` of other accountants while a block is open.

    Within a model that a budget is charged for, they work: diffprivlib gives the model's parts
    accountants of their own.
    """
    if name in {"check", "spend"} and not isinstance(accountant, BlockBudget):
        charged = running_tool().accountant
        if not (isinstance(charged, BlockBudget) and charged.entered):
            raise NotAsked(
                "nothing was charged: a budget is in use, and this tool or model has another "
                f"accountant ({type(accountant).__name__}). Make the model inside the block, or "
                "pass the budget as `accountant=`"
            )
    return object.__getattribute__(accountant, name)
