"""Consoles, progress bars and JSON lines: tables for people, one object a line for scripts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import msgspec

from accountant.display.numbers import Tone, tone
from accountant.display.spending import ratio_for_good, spending
from accountant.foreign_text import csv_text, escape_json

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress, TaskID
    from rich.text import Text

    from accountant.records.outcomes import Outcome

T = TypeVar("T")

_WIDE = 120  # columns of a table in a file, where folding at 80 would only hurt

BAR_STYLE: Final[dict[Tone, str]] = {"calm": "green", "near": "yellow", "full": "red"}


def _console(**options: Any) -> Console:
    # Imported late, as rich is elsewhere in this module: JSON needs none of it.
    from streams.cli.printing.safe_console import SafeConsole

    # Without emoji, a name such as `a:cat:b` is printed unchanged.
    return SafeConsole(highlight=False, emoji=False, **options)


@lru_cache(maxsize=1)
def stdout() -> Console:
    """Return the console of results."""
    return _console(width=None if sys.stdout.isatty() else _WIDE)


@lru_cache(maxsize=1)
def stderr() -> Console:
    """Return the console of progress and errors."""
    return _console(stderr=True)


def print_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    write_lines([escape_json(msgspec.json.encode(value))])


def print_list(
    found: Sequence[Any], table: Callable[[], RenderableType], none: str, *, as_json: bool
) -> None:
    """Print what was found: a line of JSON each, or a table.

    Args:
        table: makes the table. `none`: what is said to people where nothing was found.
    """
    from streams.cli.printing.say import say

    if as_json:
        write_lines(escape_json(msgspec.json.encode(each)) for each in found)
    elif found:
        stdout().print(table())
    else:
        say(none)


def print_csv(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Print a table as CSV, in UTF-8."""
    sys.stdout.buffer.write(csv_text(columns, rows).encode())
    sys.stdout.flush()


def write_lines(lines: Iterable[bytes]) -> None:
    """Write each value as a line, byte for byte; on a terminal with escapes."""
    out = sys.stdout.buffer
    shown = escape_json if sys.stdout.isatty() else bytes
    for line in lines:
        out.write(shown(line) + b"\n")
    out.flush()


def progress(
    *, console: Console | None = None, wanted: bool = True, time_left: bool = False
) -> Progress:
    """Return a progress bar that disappears at the end; without a terminal it shows nothing.

    Args:
        console: the console that also prints lines meanwhile. Default stderr.
        time_left: show an estimate of the time left, where the total is known.
    """
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    shown = console or stderr()
    columns = [TimeRemainingColumn()] if time_left else []
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        *columns,
        console=shown,
        transient=True,
        disable=not (wanted and shown.is_terminal),
    )


@contextmanager
def count_progress(bars: Progress, values: Iterable[T], task: TaskID) -> Iterator[Iterator[T]]:
    """Count values with a progress bar as the block takes them.

    rich counts in a thread, and its generator joins that thread when it is closed. After an error
    in a loop, the interpreter would close it at exit, and wait for a thread that has ended.
    """
    with closing(cast("Generator[T]", bars.track(values, task_id=task))) as counting:
        yield counting


def outcome_text(outcome: Outcome) -> Text:
    """Return an outcome in its colour."""
    from rich.text import Text

    return Text(outcome, style=_colour(outcome))


def _colour(outcome: Outcome) -> str:
    if outcome.charges:
        return "green"
    if outcome.is_refusal:
        return "red"
    if outcome.is_repeat:
        return "cyan"
    if outcome.is_not_considered:
        return "magenta"
    if outcome.pauses:
        return "yellow"
    return "blue" if outcome.is_applied else ""


def spent_bar(
    ratio: float | Decimal, width: int = 12, *, reserved: float | None = None, verb: str = ""
) -> Text:
    """Return a bar of the spent part of a budget, with its percentage.

    Args:
        ratio: the part that is spent or reserved.
        reserved: the part of the budget that open reservations hold.
        verb: what the percentage is, such as `spent`, where no heading says so.
    """
    from rich.text import Text

    full = min(width, round(ratio * width))
    solid = min(full, round(ratio_for_good(ratio, reserved) * width))
    bar = Text("█" * solid, style=BAR_STYLE[tone(ratio)])
    bar.append("▒" * (full - solid), style=BAR_STYLE[tone(ratio)])
    bar.append("░" * (width - full), style="dim")
    found = spending(ratio, reserved)
    bar.append(f" {found.spent:>6} {verb}".rstrip(), style="")
    return bar.append(f", {found.reserved} reserved", style="") if found.reserved else bar
