"""Reads the stored answers of a ledger's file that no server has open, such as a copy's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import fail
from streams.cli.reading.connect import settings_for
from streams.cli.reading.dataset_reader import get_dataset, reader

if TYPE_CHECKING:
    from accountant.answers import NoisyAnswer


def file_without_server(url: str) -> Path | None:
    """Return the ledger's file at an address, None if a server has it open or it is none."""
    from streams.address import ledger_url
    from streams.embedded.file_lock import FileLock

    where = ledger_url(url)
    if where.kind != "sqlite":
        return None
    owner = FileLock(Path(where.target)).owner()
    return Path(where.target) if owner is None or owner.address is None else None


def stored_answers(file: Path, url: str, dataset: str) -> list[NoisyAnswer]:
    """Return a dataset's answers in the store beside a ledger's file, oldest first.

    Raises: NoSuchLedger. Refused: the file or its store cannot be read.
    """
    from accountant.answers import decode_answer
    from streams.answers import answers_path
    from streams.answers.answer_file import open_answers

    with reader(url) as ledger:
        get_dataset(ledger, dataset)
    path = answers_path(file, settings_for(url, None).curator_store)
    if not path.exists():
        hint = "run `accountant serve` with the data, or copy the store beside the ledger's copy"
        fail(Exit.OPERATOR, f"no answers are stored in {path}", hint=hint)
    with open_answers(path) as store:
        return [decode_answer(each.value) for each in store.of_dataset(dataset)]
