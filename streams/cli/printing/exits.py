"""How a command ends with an error, and what it prints then."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NoReturn

import typer

from accountant.foreign_text import escape_lines
from accountant.suggest import did_you_mean
from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.safe_streams import output_error, reader_is_gone
from streams.cli.printing.signals import signal_of
from streams.errors import name_missing_extra

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

IF_MEANT: Final = "add --yes if it is meant"


def fail(code: int, message: str, *, hint: str | None = None) -> NoReturn:
    """End the command with a message on stderr, and what to do next."""
    complain(message, hint=hint)
    raise typer.Exit(code)


def ask_back(words: str, hint: str = IF_MEANT) -> NoReturn:
    """End the command before it does what cannot be taken back.

    Args:
        words: what it would do, without a full stop.
    """
    from streams.cli.printing.output import stderr

    stderr().print(f"[bold yellow]nothing was done:[/] {_plain(words)}", soft_wrap=True)
    stderr().print(f"[bold]try:[/]   {_plain(hint)}", soft_wrap=True)
    raise typer.Exit(Exit.USAGE)


def complain(message: str, *, hint: str | None = None) -> None:
    """Print to stderr what went wrong, and what to do next."""
    from streams.cli.printing.output import stderr

    stderr().print(f"[bold red]error:[/] {_plain(message)}", soft_wrap=True)
    if hint:
        stderr().print(f"[bold]try:[/]   {_plain(hint)}", soft_wrap=True)


def check_output_complete() -> None:
    """End the command if some output was lost although its reader is still there."""
    if output_error() is not None and not reader_is_gone():
        raise typer.Exit(Exit.OPERATOR)


def fail_word(option: str, rule: str, word: str, known: Iterable[str]) -> NoReturn:
    """End the command for a value that its option does not accept; suggest a close one."""
    meant = did_you_mean(word, known)()
    # The suggestion comes first: the rule may list many words.
    start = f"{option} {word}: {meant} " if meant else ""
    fail(Exit.USAGE, f"{start}{option} {rule}, got {word}")


def _plain(text: str) -> str:
    return text.replace("[", r"\[")


@contextmanager
def escape_usage_errors() -> Iterator[None]:
    """Escape control characters in usage errors, which repeat the words of the user."""
    try:
        yield
    except Exception as error:
        message = getattr(error, "message", None)
        if isinstance(message, str):
            error.message = escape_lines(message)  # type: ignore[attr-defined]
        raise


@contextmanager
def explain_errors() -> Iterator[None]:
    """Turn the expected errors of a command into a message and an exit code."""
    try:
        with name_missing_extra():
            yield
    except KeyboardInterrupt as error:  # a command that has sent nothing leaves nothing behind
        raise typer.Exit(128 + signal_of(error)) from None
    except typer.Exit:
        raise
    except Exception as error:
        # Imported late: it names errors of modules that most commands do not import.
        from streams.cli.printing.explanations import explain

        found = explain(error)
        if found is None:
            raise
        fail(found.code, found.message, hint=found.hint)
