"""Exit codes, and what each expected error says before it."""

from __future__ import annotations

from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, NoReturn

import typer

from accountant.errors import BudgetError, LogDamaged, RequestInvalid
from accountant.inputs import Undecodable
from streams.errors import ClockOutOfRange, JournalFault, Refused
from streams.settings import AddressInvalid

if TYPE_CHECKING:
    from collections.abc import Iterator


class Exit(IntEnum):
    """What the command's exit code means; docs/reference/commands.md says the same."""

    OK = 0
    FAILED = 1
    """The answer is no: refused, does not fit, not found, or an audit that disagrees."""
    USAGE = 2
    """The command line, or a value in it, is wrong."""
    UNAVAILABLE = 3
    """The ledger or broker does not answer: the same command may work later."""
    OPERATOR = 4
    """A start is refused: wrong topics, damaged or locked file, clock. Someone must act."""
    INTERRUPTED = 130


def fail(code: Exit, message: str, *, hint: str | None = None) -> NoReturn:
    """End the command with a message on stderr, and what to do next."""
    from streams.cli.output import stderr

    stderr().print(f"[bold red]error:[/] {_plain(message)}", soft_wrap=True)
    if hint:
        stderr().print(f"[bold]try:[/]   {_plain(hint)}", soft_wrap=True)
    raise typer.Exit(code)


def _plain(text: str) -> str:
    return text.replace("[", r"\[")


@contextmanager
def explained() -> Iterator[None]:
    """Turn the errors that are expected of a command into a message and an exit code."""
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(Exit.INTERRUPTED) from None
    except (RequestInvalid, Undecodable, AddressInvalid) as error:
        fail(Exit.USAGE, str(error))
    except ClockOutOfRange as error:
        fail(Exit.OPERATOR, str(error), hint="set this machine's clock, for example by NTP")
    except Refused as error:
        fail(Exit.OPERATOR, str(error))
    except LogDamaged as error:
        hint = "`accountant audit` names the first record that disagrees"
        fail(Exit.OPERATOR, f"the decision log is damaged: {error}", hint=hint)
    except JournalFault as error:
        hint = "is the address right (--url, ACCOUNTANT_URL)? Requests may be retried as they are"
        fail(Exit.UNAVAILABLE, str(error), hint=hint)
    except BudgetError as error:
        fail(Exit.FAILED, str(error))
    except FileNotFoundError as error:
        fail(Exit.USAGE, f"no such file: {error.filename}")
    except IsADirectoryError as error:
        fail(Exit.USAGE, f"{error.filename} is a directory")
    except PermissionError as error:
        fail(Exit.OPERATOR, f"permission denied: {error.filename}")
