"""Errors of the accountant, by what the caller must do.

BudgetError
|- RequestInvalid          decide it `invalid`; the ledger is untouched
`- LedgerFault             stop using this state and replay the partition
   `- LogDamaged           a replay cannot help: an operator must look
      `- MadeByOtherVersion   nothing is damaged, but another version wrote it
         |- MadeByNewerVersion       run the newer version
         `- MadeByPrereleaseVersion  start a new ledger
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from accountant.foreign_text import escape_control, escape_lines

UNKNOWN_FIELD: Final = "is not a field here"
OVER_ZERO: Final = "must be greater than 0 for this filter"
"""Rule of a budget whose field is 0, also where it was left out."""
_NO_VALUE: Final = frozenset({"None", "nothing"})
_SHOWN = 80  # characters of a rejected value that a message repeats


def _repr(value: object) -> str:
    try:
        return repr(value)
    except ValueError:  # an integer of thousands of digits
        return f"a value of type {type(value).__name__}"


def _rebuild(kind: type[PortableError], args: tuple[object, ...]) -> PortableError:
    return kind.__new__(kind, *args)


class PortableError(Exception):
    """An exception that pickle and copy give back whole, whatever its constructor takes.

    Python calls the constructor with `args`, which is the message alone where a subclass takes
    more: the copy is then another error, and a process pool that receives one never answers.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args), self.portable_state()

    def portable_state(self) -> dict[str, Any]:
        """Return the attributes that pickle and copy keep, notes included."""
        return vars(self).copy()


class BudgetError(PortableError):
    """Base of every error that this product raises on purpose.

    Its message may repeat what others wrote, and ends up in terminals and logs.
    """

    def __str__(self) -> str:
        return escape_lines(super().__str__())

    @property
    def recorded(self) -> str:
        """The message as records repeat it."""
        return escape_control(super().__str__(), lines=True)


class RequestInvalid(BudgetError):
    """A field breaks a rule of the wire format.

    Args:
        field: path of the field, dotted, as in `claim.sigma`.
        rule: what must hold, phrased to follow the field's name.
        value: the rejected value; the message shortens it.
        hint: computes a suggestion when the error is shown; records leave it out.
    """

    def __init__(
        self, field: str, rule: str, value: object, *, hint: Callable[[], str] | None = None
    ) -> None:
        self._hint = hint
        shown = value if isinstance(value, str) else _repr(value)
        if len(shown) > _SHOWN:
            shown = f"{shown[:_SHOWN]}... ({len(shown)} characters)"
        # Records repeat these texts. Readers must not get a control character, or half of a
        # surrogate pair, which UTF-8 cannot encode.
        self.field = escape_control(field)
        self.rule = escape_control(rule)
        self.value = escape_control(shown)
        super().__init__(self._message())

    def _message(self) -> str:
        if self.value in _NO_VALUE and (
            self.rule.startswith("must be given") or self.rule == OVER_ZERO
        ):
            return f"{self.field} is missing: it {self.rule}"
        if self.value in _NO_VALUE and self.rule.startswith("must be passed"):
            return f"{self.field} {self.rule}"
        if self.rule == OVER_ZERO and self.value == "0":  # what a field that was left out may be
            return f"{self.field} is missing or 0: it {self.rule}"
        return f"{self.field} {self.rule}, got {self.value}"

    def __str__(self) -> str:
        message, hint = super().__str__(), self.hint
        if not hint.endswith("?"):
            return f"{message}: {hint}" if hint else message
        # The question comes first: the rule may list many words.
        word = "" if self.rule == UNKNOWN_FIELD else f" {self.value}"
        return f"{self.field}{word}: {hint} {message}"

    @property
    def hint(self) -> str:
        """A suggestion, "" if nothing is similar."""
        return "" if self._hint is None else self._hint()

    def portable_state(self) -> dict[str, Any]:
        """Return the attributes with the hint as text: its function cannot leave the process."""
        hint = self.hint
        return {**super().portable_state(), "_hint": partial(str, hint) if hint else None}

    def under(self, parent: str) -> RequestInvalid:
        """Return the same error for the field inside `parent`."""
        error = RequestInvalid(f"{parent}.{self.field}", self.rule, self.value, hint=self._hint)
        error.value = self.value  # which is shortened already
        error.args = (error._message(),)
        return error


class LedgerFault(BudgetError):
    """The state in memory may be wrong: drop it and replay the partition."""


class LogDamaged(LedgerFault):
    """The decision log itself contradicts its own rules."""


class MadeByOtherVersion(LogDamaged):
    """Another version of this program wrote the record: this one must not continue the log."""


class MadeByNewerVersion(MadeByOtherVersion):
    """A newer version of this program wrote the record: this one must not continue the log."""

    def __init__(self, what: str, made_by: int, known: int) -> None:
        super().__init__(
            f"the record was made by {what} {made_by}, this version knows {what} up to {known}: "
            "run the newer version"
        )


class MadeByPrereleaseVersion(MadeByOtherVersion):
    """A version before the first release wrote this: its format is no longer read.

    Args:
        what: what it wrote: a file, a record.
    """

    def __init__(self, what: str = "the record") -> None:
        self.what = what
        super().__init__(what)

    def __str__(self) -> str:
        return (
            f"{self.what} was written by a version before the first release, whose format is no "
            "longer read. Start a new ledger in another place (docs/how-to/upgrade.md), and keep "
            "this one as it is"
        )
