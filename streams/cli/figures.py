"""`accountant figures`: draws the figures of the documentation from our own functions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streams.cli.printing.exits import Exit, explained, fail, fail_word
from streams.cli.printing.say import say
from streams.cli.reading.options import Json

_FORMATS = ("png", "svg", "pdf")


def figures(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Directory; made if it is not there.")],
    only: Annotated[
        list[str] | None, typer.Option(help="Name of one figure; may be repeated. Default: all.")
    ] = None,
    kind: Annotated[str, typer.Option("--format", help="png, svg or pdf.")] = "png",
    json: Json = False,
) -> None:
    """Draw how filters, odometers and compositions compare, each a file in DIR.

    Every point is computed by the code that decides. Needs matplotlib: the extra `plots`.
    """
    from streams.cli.printing.output import counted, print_json, progress
    from streams.figures import PICTURES

    if kind not in _FORMATS:
        fail_word("--format", f"must be one of {', '.join(_FORMATS)}", kind, _FORMATS)
    names = list(dict.fromkeys(only or PICTURES))
    for name in names:
        if name not in PICTURES:
            fail_word("--only", f"must be one of {', '.join(PICTURES)}", name, PICTURES)
    try:
        from streams.figures.drawing import save
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "matplotlib":
            raise
        fail(
            Exit.USAGE,
            "figures are drawn with matplotlib, which is not installed",
            hint="pip install 'streaming-privacy-accountant[plots]', or pip install matplotlib",
        )
    with explained():
        out.mkdir(parents=True, exist_ok=True)
        with progress() as bars:
            task = bars.add_task("drawing", total=len(names))
            with counted(bars, names, task) as drawing:
                for name in drawing:
                    path = save(PICTURES[name](), out, kind=kind)
                    if json:
                        print_json({"figure": name, "file": str(path)})
                    else:
                        say(path)
