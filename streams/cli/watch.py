"""`accountant watch`: a live table of every budget."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from streams.cli.exits import explained
from streams.cli.options import DEFAULT_URL, Json, Url


def watch(
    url: Url = DEFAULT_URL,
    once: Annotated[bool, typer.Option("--once", help="Print the table once, and end.")] = False,
    every: Annotated[float, typer.Option(min=0.1, max=3600, help="Seconds between looks.")] = 1.0,
    json: Json = False,
) -> None:
    """Show what is spent and left of each dataset, its odometers, grants and refusals.

    Ends with Ctrl-C. Where stdout is no terminal, a table is printed for each look. With
    --json each look prints one line an object, a dataset each.
    """
    from rich.live import Live

    from streams.cli.output import print_json, stdout
    from streams.cli.tables import dataset_table
    from streams.cli.views import open_views

    with explained(), open_views(url) as views:
        if json or once or not stdout().is_terminal:
            while True:
                found = views.read()
                if json:
                    for view in found:
                        print_json(view)
                else:
                    stdout().print(dataset_table(found))
                if once:
                    return
                time.sleep(every)
        with Live(console=stdout(), auto_refresh=False, screen=False) as live:
            while True:
                title = f"{url}  {time.strftime('%H:%M:%S')}"
                live.update(dataset_table(views.read(), title=title), refresh=True)
                time.sleep(every)
