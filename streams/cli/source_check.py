"""`accountant source check`: a schema beside its data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import complain, explain_errors, fail
from streams.cli.reading.options import Json, SourcesFile
from streams.cli.reading.policy_options import read_schema

if TYPE_CHECKING:
    from accountant.questions import Schema
    from streams.sources import SourceSettings


def check(
    schema: Annotated[
        Path,
        typer.Argument(
            metavar="SCHEMA", help="JSON file of a schema.", dir_okay=False, exists=True
        ),
    ],
    data_sources: SourcesFile,
    json: Json = False,
) -> None:
    """Check a schema against its source: names, types, and what is missing; nothing is charged.

    Reads the whole source once, on the machine that has it. Its numbers are exact numbers of the
    data, for the owner alone. Exit code 1 if the source does not match the schema.
    """
    from streams.cli.printing.output import print_json, stdout
    from streams.cli.printing.source_check import CheckedSource, check_json, check_lines
    from streams.sources.missing_cells import count_missing
    from streams.sources.source_facts import check_schema, read_facts
    from streams.sources.source_tables import SourceProblem

    with explain_errors():
        declared = read_schema(schema)
        settings = _settings(declared, data_sources)
        try:
            facts = read_facts(settings)
        except SourceProblem as problem:
            fail(Exit.OPERATOR, f"the source {declared.source.name} cannot be read: {problem}")
        findings = check_schema(declared, facts)
        counts, unreadable = None, ""
        try:
            repeated = {each.column for each in findings if each.kind == "repeated"}
            counts = count_missing(settings, declared, repeated)
        except SourceProblem as problem:
            unreadable = str(problem)
        checked = CheckedSource(declared, facts, tuple(findings), counts)
        if json:
            print_json(check_json(checked))
        else:
            for line in check_lines(checked):
                stdout().print(line, soft_wrap=isinstance(line, str))
    if unreadable:
        complain(f"the source {declared.source.name} cannot be read in full: {unreadable}")
        raise typer.Exit(Exit.OPERATOR)
    if not checked.is_clean:
        raise typer.Exit(Exit.FAILED)


def _settings(schema: Schema, path: Path) -> SourceSettings:
    """Return the settings of a schema's source; end the command if there are none."""
    from accountant.likeness import most_alike
    from streams.sources.source_settings import kind_of, read_source_settings

    sources, named = read_source_settings(path), schema.source
    settings = sources.get(named.name)
    if settings is None:
        meant = most_alike(named.name, sources)
        hint = f"did you mean {meant}?" if meant else f"name it in {path}"
        fail(Exit.FAILED, f"{path} has no source {named.name}", hint=hint)
    if kind_of(settings) != named.kind:
        kinds = f"{path} says {kind_of(settings)}, and the schema {named.kind}"
        fail(Exit.FAILED, f"the source {named.name} has two kinds: {kinds}")
    return settings
