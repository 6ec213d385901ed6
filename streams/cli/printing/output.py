"""How commands print: tables for people, one JSON object a line for scripts."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, TypeVar, cast

import msgspec
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.segment import Segment
from rich.text import Text

from accountant.display.numbers import Tone, spent_percent, tone
from accountant.foreign_text import csv_text, escaped_json, escaped_lines

T = TypeVar("T")

_WIDE = 120  # of a table that goes to a file: lines are not folded at 80

_BAR_STYLE: Final[dict[Tone, str]] = {"calm": "green", "near": "yellow", "full": "red"}
OUTCOME_STYLE = {
    "granted": "green",
    "refused": "red",
    "repeated": "cyan",
    "conflict": "magenta",
    "expired": "yellow",
    "invalid": "magenta",
    "opened": "blue",
    "closed": "blue",
    "amended": "blue",
    "member_set": "blue",
    "member_removed": "blue",
}


class _Console(Console):
    """A console on which no text acts: what others wrote is shown with escapes."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else escaped_lines(text), style, control)


def _console(**options: Any) -> Console:
    # Without emoji: a name such as `a:cat:b` is to stay as it is.
    return _Console(highlight=False, emoji=False, **options)


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
    write_lines([escaped_json(msgspec.json.encode(value))])


def print_csv(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Print a table as CSV, in UTF-8 as everywhere."""
    sys.stdout.buffer.write(csv_text(columns, rows).encode())
    sys.stdout.flush()


def write_lines(lines: Iterable[bytes]) -> None:
    """Write each as a line, byte for byte; on a terminal with escapes."""
    out = sys.stdout.buffer
    shown = escaped_json if sys.stdout.isatty() else bytes
    for line in lines:
        out.write(shown(line) + b"\n")
    out.flush()


def progress(*, console: Console | None = None, wanted: bool = True) -> Progress:
    """Return a progress display, gone when it is done; nothing where there is no terminal.

    Args:
        console: where lines are printed meanwhile; default stderr, for what is silent.
    """
    shown = console or stderr()
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=shown,
        transient=True,
        disable=not (wanted and shown.is_terminal),
    )


@contextmanager
def counted(bars: Progress, values: Iterable[T], task: TaskID) -> Iterator[Iterator[T]]:
    """Within the block, give the values, counted by a progress display as they are taken.

    rich counts in a thread that its generator ends. Left to the end of the interpreter, as where
    an error leaves a loop, that waits for a thread which does not run any more.
    """
    with closing(cast("Generator[T]", bars.track(values, task_id=task))) as counting:
        yield counting


def outcome_text(outcome: str) -> Text:
    """Return an outcome in its colour."""
    return Text(outcome, style=OUTCOME_STYLE.get(outcome, ""))


def spent_bar(ratio: float | Decimal, width: int = 12) -> Text:
    """Return a bar of the spent part of a budget, with its percentage."""
    full = min(width, round(ratio * width))
    bar = Text("█" * full, style=_BAR_STYLE[tone(ratio)]).append("░" * (width - full), style="dim")
    return bar.append(f" {spent_percent(ratio):>6}", style="")
