"""Prints what the decision on a request would be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from accountant.display.datasets import about_end, more_words
from accountant.display.refusals import when_more
from streams.cli.printing.output import print_json, stdout
from streams.cli.printing.tables import amount_lines, refusal_lines

if TYPE_CHECKING:
    from accountant.advice.preview import Preview
    from accountant.display.numbers import Texts
    from accountant.views.limit_views import LevelView


def print_preview(
    shown: Preview, budget: Texts, levels: Sequence[LevelView] = (), *, as_json: bool
) -> None:
    """Print what the decision would be; the first line says that nothing was recorded.

    Args:
        budget: the dataset's. `levels`: the limits of the analyst, if they are known.
    """
    if as_json:
        print_json(shown)
        return
    for line in _lines(shown, budget, levels):
        stdout().print(line, soft_wrap=True)


def _lines(shown: Preview, budget: Texts, levels: Sequence[LevelView]) -> list[Text]:
    word, style = ("granted", "green") if shown.granted else ("refused", "red")
    head = Text("would be ").append(word, style=style)
    if shown.reason is not None:
        head.append(f" ({shown.reason})")
    lines = [head.append("; this was a dry run, nothing was recorded")]
    lines += refusal_lines(shown, levels)
    lines += amount_lines(shown.left, budget=budget, cost=shown.cost, asked=shown.asked)
    if shown.granted:
        lines.append(Text(f"  then  {more_words(shown.more)}", style="bold"))
    elif shown.fits is not None:
        lines.append(Text(f"  fits  {shown.fits}", style="bold"))
    if (more := when_more(shown)) is not None:
        lines.append(Text(f"  then  {more.text}"))
    if shown.ends is not None:
        said = about_end(shown.ends, granted=shown.granted)
        lines.append(Text(f"  ends  {said}", style="yellow"))
    return lines
