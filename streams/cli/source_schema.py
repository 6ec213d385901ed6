"""`accountant source schema`: the skeleton of a schema."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import explain_errors, fail
from streams.cli.printing.out_file import Out, Replace, output_in
from streams.cli.reading.options import OptionalSourcesFile

if TYPE_CHECKING:
    from streams.sources import SourceSettings

_LONGEST: Final = 40
"""Of the name that a source has by its file."""


def schema(
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help="A source of the file of sources, or a file."),
    ],
    data_sources: OptionalSourcesFile = None,
    table: Annotated[
        str | None, typer.Option(help="Of a DuckDB file: a table or view, TABLE or SCHEMA.TABLE.")
    ] = None,
    delimiter: Annotated[
        str | None, typer.Option(help="Of a CSV file: , ; | or a tab. Default: as its first line.")
    ] = None,
    out: Out = None,
    replace: Replace = False,
) -> None:
    """Write the skeleton of a schema: names and types of a source, the rest to be filled in.

    Reads names and types alone, and no cell. What has to be filled in begins with FILL IN: bounds,
    categories, and the unit.
    """
    from streams.cli.printing.say import say
    from streams.sources.schema_skeleton import FILL_IT_IN, skeleton_text
    from streams.sources.source_facts import read_facts
    from streams.sources.source_settings import kind_of
    from streams.sources.source_tables import SourceProblem

    with explain_errors():
        name, settings = _named(source, data_sources) or _of_file(source, table, delimiter)
        try:
            facts = read_facts(settings)
        except SourceProblem as problem:
            fail(Exit.OPERATOR, f"{source} cannot be read: {problem}")
        text, left_out = skeleton_text(kind_of(settings), name, facts)
        with output_in(out, replace=replace):
            say(text)
        for sentence in left_out:
            say(sentence, err=True)
        say(f"{FILL_IT_IN} Then run `accountant source check` on it.", err=True)


def _named(source: str, path: Path | None) -> tuple[str, SourceSettings] | None:
    """Return a source of the file of sources, None if it has none of this name."""
    from streams.sources.source_settings import read_source_settings

    settings = None if path is None else read_source_settings(path).get(source)
    return None if settings is None else (source, settings)


def _of_file(source: str, table: str | None, delimiter: str | None) -> tuple[str, SourceSettings]:
    """Return the settings of a file, and a name for them; end the command if there is none."""
    import re

    from accountant.questions.schema import is_word
    from streams.sources.file_formats import settings_of_file
    from streams.sources.source_tables import SourceProblem

    path = Path(source)
    if not path.is_file():
        hint = "name a file, or a source of the file that --data-sources names"
        fail(Exit.FAILED, f"there is no source and no file {source}", hint=hint)
    try:
        settings = settings_of_file(path.absolute(), table=table, delimiter=delimiter)
    except SourceProblem as problem:
        fail(Exit.USAGE, f"{source}: {problem}")
    name = re.sub(r"\W+", "_", path.stem, flags=re.ASCII)[:_LONGEST]
    return name if is_word(name) else f"source_{name}", settings
