"""`accountant accept-answers`: continue with the stored answers that a stopped ledger has left."""

from __future__ import annotations

import asyncio
from pathlib import Path

from accountant.display.numbers import counted
from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import explain_errors, fail
from streams.cli.printing.say import say
from streams.cli.reading.options import DEFAULT_URL, Json, Url
from streams.cli.stopped_ledger import StoppedLog, stopped_settings


def accept_answers(url: Url = DEFAULT_URL, json: Json = False) -> None:
    """Accept the store of answers of a stopped ledger as all the answers there are.

    For example after the newest store was lost, or the ledger was restored from a backup. Every
    question without an answer that was granted before fails at the next start, and stays charged:
    it may have been answered, and a second draw would be a second release.
    """
    from streams.answers import answers_path
    from streams.cli.printing.output import print_json
    from streams.client.connection.connect import check_exists
    from streams.clock import SystemClock
    from streams.embedded.answer_heads import accept_answers as accept
    from streams.embedded.answer_heads import heads_of
    from streams.embedded.file_ownership import stopped_ledger

    with explain_errors():
        settings = stopped_settings(url)
        if settings.ledger.kind == "kafka":
            hint = "docs/how-to/backup-and-restore.md says how to restore the topic of answers"
            fail(Exit.USAGE, "this command is for a ledger in a file", hint=hint)
        path = Path(settings.ledger.target).absolute()
        check_exists(path)
        clock = SystemClock()
        with stopped_ledger(path, settings, clock.now()) as (journal, genesis):
            log = StoppedLog(0, journal, genesis, clock, path, settings)
            asyncio.run(log.own_and_compare())
            store = answers_path(path, settings.curator_store)
            head = accept(path, store, heads_of(path, settings))
    if json:
        print_json({"answers": head.head.number, "begins": head.begins})
        return
    answers = counted(head.head.number, "answer")
    say(
        f"{answers} in {store}: accepted as all there are. Questions that were granted before "
        f"decision {head.begins} and have none fail, and stay charged\n"
        "next: start the ledger again"
    )
