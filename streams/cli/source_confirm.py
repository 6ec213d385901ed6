"""`accountant source confirm`: confirms the names and types that a source has now."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from accountant.display.numbers import counted
from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import explain_errors, fail
from streams.cli.printing.say import say
from streams.cli.reading.options import Json

if TYPE_CHECKING:
    from streams.sources.confirmed_facts import ColumnChange


def confirm(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The source, as schemas name it.")],
    data_sources: Annotated[
        Path,
        typer.Option(
            "--data-sources",
            envvar="ACCOUNTANT_DATA_SOURCES",
            help="The file that says where the data are.",
        ),
    ],
    confirmed: Annotated[
        Path | None,
        typer.Option(
            envvar="ACCOUNTANT_DATA_SOURCES_CONFIRMED",
            help="The file of what was confirmed. Default: the file of sources with .confirmed "
            "appended.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Accept at once the names and types that a source has now; print how they differ from before.

    Until then no question on it is answered. Run it where the file of sources is, as the user that
    reads it. Names and types may tell of people: a column of whole numbers with one empty cell may
    have another type. `accountant source check` compares them with a schema.
    """
    from accountant.suggest import did_you_mean
    from streams.cli.printing.output import print_json
    from streams.errors import name_missing_extra

    with explain_errors(), name_missing_extra():
        from streams.sources.confirmed_facts import ConfirmedFacts, changes_of, confirmed_path
        from streams.sources.source_facts import SourceFacts, read_facts
        from streams.sources.source_settings import read_source_settings
        from streams.sources.source_tables import SourceProblem

        sources = read_source_settings(data_sources)
        if name not in sources:
            meant = did_you_mean(name, sources)()
            fail(Exit.USAGE, f"{data_sources} has no source {name}", hint=meant or None)
        file = ConfirmedFacts(confirmed or confirmed_path(data_sources))
        before = file.get(name)
        try:
            facts = read_facts(sources[name])
        except SourceProblem as problem:
            fail(Exit.OPERATOR, f"the source {name} cannot be read: {problem}. Nothing changed")
        old = SourceFacts(columns=()) if before is None else before.facts
        found = changes_of(old, facts)
        if not json:
            _print(name, found, is_first=before is None)
        file.confirm(name, facts)
    if json:
        print_json(
            {
                "source": name,
                "first": before is None,
                "changes": [
                    {"column": each.column, "before": each.before, "now": each.now}
                    for each in found
                ],
            }
        )
    else:
        say(f"confirmed {counted(len(facts.columns), 'column')} of {name}")


def _print(name: str, found: list[ColumnChange], *, is_first: bool) -> None:
    if is_first:
        say(f"nothing was confirmed of {name} before; it has")
    elif not found:
        say(f"{name} has the names and types that were confirmed before")
    for each in found:
        say(f"  {each.column}  {each.now}" if is_first else f"  {each}")
