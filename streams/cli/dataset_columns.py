"""`accountant dataset columns`: what can be asked of a dataset, by its schema alone."""

from __future__ import annotations

from streams.cli.dataset_outside import Name
from streams.cli.printing.exits import explain_errors
from streams.cli.reading.options import DEFAULT_URL, Json, TokenFile, Url


def columns(
    name: Name, url: Url = DEFAULT_URL, token_file: TokenFile = None, json: Json = False
) -> None:
    """Show each column of a dataset: its type, its values, and what can be asked of it.

    The schema alone says it, never the data. The questions run as they are written.

    Example: `accountant dataset columns survey`. Exit code 1 if the dataset has no schema.
    """
    from streams.cli.printing.columns import column_table
    from streams.cli.printing.output import print_json, stdout
    from streams.cli.reading.dataset_reader import get_dataset, reader

    with explain_errors(), reader(url, token_file) as ledger:
        get_dataset(ledger, name)  # or the words of a command where there is none
        found = ledger.columns(name)
    if json:
        for each in found:
            print_json(each)
        return
    stdout().print(column_table(found))
    stdout().print(found.note, soft_wrap=True)
