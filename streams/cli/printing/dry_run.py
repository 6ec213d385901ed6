"""What a request would be told, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from accountant.display.datasets import more_words
from accountant.display.refusals import when_more
from streams.cli.printing.output import print_json, stdout
from streams.cli.printing.tables import about_end, amount_lines, refusal_lines

if TYPE_CHECKING:
    from accountant.advice.preview import Preview


def tell_preview(shown: Preview, *, as_json: bool) -> None:
    """Print what a request would be told; the first words say that nothing was asked."""
    if as_json:
        print_json(shown)
        return
    for line in _lines(shown):
        stdout().print(line, soft_wrap=True)


def _lines(shown: Preview) -> list[Text]:
    word, style = ("granted", "green") if shown.granted else ("refused", "red")
    head = Text("would be ").append(word, style=style)
    if shown.reason is not None:
        head.append(f" ({shown.reason})")
    lines = [head.append("; nothing was asked or written")]
    lines += refusal_lines(shown)
    lines += amount_lines(shown.left, cost=shown.cost, asked=shown.asked)
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
