"""`accountant question`: list and end the questions that wait for their answers."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from accountant.display.numbers import counted
from streams.cli.printing.exits import complain, explain_errors, fail
from streams.cli.printing.safe_streams import output_error
from streams.cli.printing.say import say
from streams.cli.printing.signals import SignalsRaise
from streams.cli.reading.options import DEFAULT_URL, Dataset, Json, TokenFile, Url
from streams.cli.ready import server_of
from streams.errors import Unavailable, Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from streams.client.http.question_queue import QuestionQueueClient

app = typer.Typer(help="List and end the questions that wait.", no_args_is_help=True)

_WHERE: Final = (
    "name the process that runs the questions: `--url http://HOST:PORT` of `accountant curator`, "
    "or of `accountant serve`"
)
_AGAIN: Final = (
    "`accountant question list` shows what waits; the same command ends that, and nothing twice"
)


@app.command("list")
def list_(
    dataset: Dataset,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """List by analyst how many questions on a dataset wait, and since when.

    Send it to the process that runs them: `accountant curator` on Kafka, otherwise `accountant
    serve`. Only owners of the dataset may, and administrators.
    """
    from streams.cli.printing.output import print_json

    with explain_errors():
        found = _client(url, token_file).waiting(dataset)
    if json:
        for each in found:
            print_json({"analyst": each.analyst, "questions": each.questions, "since": each.since})
    elif not found:
        say(f"no question on {dataset} waits")
    else:
        for each in found:
            say(f"{each.analyst}: {each.questions}, the oldest since {each.since}")


@app.command("end")
def end(
    dataset: Dataset,
    analyst: Annotated[
        str | None, typer.Option(help="End only the questions of this analyst.")
    ] = None,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """End the questions on a dataset that wait: they fail, and their charge stays.

    Send it to the process that runs them: `accountant curator` on Kafka, otherwise `accountant
    serve`. Only owners of the dataset may, and administrators. A session that never began can still
    be voided. What runs already gets its answer, and later questions run.
    """
    from streams.cli.printing.output import print_json

    whose = "" if analyst is None else f" of {analyst}"
    with _says_how_to_repeat(f"questions{whose} on {dataset}"):
        ended = _client(url, token_file).end(dataset, analyst)
        if json:
            print_json({"dataset": dataset, "analyst": analyst, "ended": ended})
        elif ended:
            say(f"ended {counted(ended, 'question')}{whose} on {dataset}: failed, still charged")
        else:
            say(f"no question{whose} on {dataset} waits")


@contextmanager
def _says_how_to_repeat(questions: str) -> Iterator[None]:
    """Say after a fault, a signal or lost output that questions may have ended."""
    with explain_errors(), SignalsRaise() as signals:
        try:
            yield
        except (Unavailable, Unreadable, KeyboardInterrupt) as error:
            from streams.cli.printing.explanations import explain

            signals.hold()
            found = explain(error, again=_AGAIN)
            assert found is not None
            fail(found.code, f"{questions} may have ended: {found.message}", hint=found.hint)
        signals.hold()
        if output_error() is not None:
            complain(f"what became of {questions} could not be printed", hint=_AGAIN)


def _client(url: str, token_file: Path | None) -> QuestionQueueClient:
    from streams.cli.reading.connect import settings_for
    from streams.client.http.bearer import bearer_for
    from streams.client.http.question_queue import QuestionQueueClient

    server = server_of(url, "brokers run no questions", _WHERE)
    return QuestionQueueClient(server, bearer_for(server, settings_for(server, token_file)))
