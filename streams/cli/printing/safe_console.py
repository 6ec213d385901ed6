"""A console on which text written by others cannot act."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from accountant.foreign_text import escape_lines


class SafeConsole(Console):
    """Shows control characters as escapes, so that text written by others cannot act."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else escape_lines(text), style, control)
