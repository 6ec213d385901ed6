"""`accountant evidence`: a folder with all that a regulator needs to check a ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import explain_errors, fail
from streams.cli.printing.say import say
from streams.cli.reading.options import (
    DEFAULT_URL,
    AnswerStoreFile,
    Archives,
    Json,
    Receipts,
    TokenFile,
    Url,
)


def evidence(
    folder: Annotated[Path, typer.Argument(help="The new folder.", metavar="FOLDER")],
    url: Url = DEFAULT_URL,
    archive: Archives = None,
    checkpoints: Annotated[
        list[str] | None,
        typer.Option(
            help="Directory or kafka://HOST:PORT/TOPIC of signed checkpoints. Default: those that "
            "the settings name."
        ),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            help="Public key of the checkpoints, or a file with it. Default: those "
            "beside the checkpoints."
        ),
    ] = None,
    receipt: Receipts = None,
    answers: AnswerStoreFile = None,
    document: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="A document that an owner's record of a release names by its hash; repeat it for "
            "several.",
        ),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(help="Only what an owner of this dataset may read; not chained."),
    ] = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Write the evidence of a ledger into a new folder, whole or not at all.

    Log, archives, answers, checkpoints, receipts, public keys, an audit report, every dataset's
    policy and guarantee in words, owners' records of releases and their remarks, what no guarantee
    covers, checksums, a manifest, and verify.py.
    With Python alone, verify.py checks hashes, signatures and the sums of common filters. Other
    filters' costs, and each decision again, need `accountant audit`. The folder has mode 0700, and
    no secret in it. Over HTTP, name your dataset with --dataset. Exit code 1 if the audit has found
    something: the folder is written, and says what.
    """
    from streams.address import ledger_url
    from streams.audit.evidence_folder import new_folder
    from streams.cli.evidence_parts import write_dataset, write_ledger
    from streams.cli.printing.output import print_json
    from streams.cli.reading.log_at import log_at

    with explain_errors():
        if dataset is None and ledger_url(url).kind == "http":
            what = "a server gives the evidence of one dataset, not of the whole ledger"
            hint = "add --dataset NAME, or name the log: --url sqlite:///FILE or kafka://HOST:PORT"
            fail(Exit.USAGE, what, hint=hint)
    with explain_errors(), new_folder(folder) as made:
        if dataset is not None:
            write_dataset(made, url, token_file, dataset, document or ())
            is_right = True  # there is nothing to audit
        else:
            given = checkpoints or (), key or (), receipt or (), answers, document or ()
            source = log_at(url, archive or ())
            is_right = write_ledger(made, url, source, archive or (), *given)
    if json:
        print_json({"folder": str(folder), "files": made.files, "missing": made.missing})
    else:
        for each in made.files:
            say(f"{each['name']}: {each['what']}")
        for each in made.missing:
            say(f"missing: {each['what']}: {each['why']}")
        say(f"to check it: python3 -I {folder}/verify.py --key PUBLIC-KEY --ledger ID")
    if not is_right:
        raise typer.Exit(Exit.FAILED)
