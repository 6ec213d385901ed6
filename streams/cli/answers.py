"""`accountant answers`: the answers to a dataset's questions that the caller may see."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import explain_errors, fail
from streams.cli.printing.out_file import Out, Replace, output_in
from streams.cli.printing.say import say
from streams.cli.reading.options import DEFAULT_URL, Json, TokenFile, Url

if TYPE_CHECKING:
    from collections.abc import Iterable

    from accountant.answers import NoisyAnswer
    from accountant.answers.pairs import Comparison


def answers(
    dataset: Annotated[str, typer.Argument(help="Name of the dataset.")],
    request_id: Annotated[
        str | None,
        typer.Option("--id", help="Print only the answer to this request, with all its values."),
    ] = None,
    analyst: Annotated[
        str | None, typer.Option(help="Only answers to this analyst's questions.")
    ] = None,
    last: Annotated[
        int,
        typer.Option(min=1, max=10_000, help="How many answers, the newest ones; oldest first."),
    ] = 50,
    difference: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="GROUP GROUP", help="With --id: the first minus the second of two groups."
        ),
    ] = None,
    ratio: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="GROUP GROUP", help="With --id: the first divided by the second."),
    ] = None,
    all_pairs: Annotated[
        bool,
        typer.Option("--all-pairs", help="Let the intervals of all pairs of groups hold at once."),
    ] = False,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    out: Out = None,
    replace: Replace = False,
    json: Json = False,
) -> None:
    """List the latest answers to a dataset's questions; with --json as they are stored, one a line.

    Reading costs nothing. Analysts see their own answers; `--visibility members` shows them those
    of all members. Without a server, such as of a copy, they are read from the store beside the
    ledger's file, all of them.

    `--difference` and `--ratio` compare two groups of one answer, with an interval by the noise of
    both. Name them before looking; `--all-pairs` lets you look first.

    Example: `accountant answers survey`. Exit code 1 if --id has no answer that you may see.
    """
    from accountant.answers import encode_answer
    from accountant.display.answers import answer_text, pair_lines
    from streams.cli.printing.answers import answer_table
    from streams.cli.printing.output import stdout, write_lines
    from streams.cli.reading.connect import connect
    from streams.cli.reading.dataset_reader import get_dataset
    from streams.cli.reading.stored_answers import file_without_server, stored_answers

    asked: dict[Comparison, tuple[str, str] | None] = {"difference": difference, "ratio": ratio}
    pairs = {comparison: groups for comparison, groups in asked.items() if groups is not None}
    if pairs and (request_id is None or json):
        fail(Exit.USAGE, "--difference and --ratio are of one answer, as text: add --id, no --json")
    if all_pairs and not pairs:
        fail(Exit.USAGE, "--all-pairs is of --difference or --ratio")
    with explain_errors():
        file = file_without_server(url)
        if file is not None:
            found = _last(stored_answers(file, url, dataset), request_id, analyst, last)
        else:  # the server knows what the caller may see
            with connect(url, token_file) as ledger:
                get_dataset(ledger, dataset)
                found = _last(ledger.answers(dataset), request_id, analyst, last)
    if not found and request_id is not None:
        hint = f"`accountant answers {dataset}` lists those that you may see"
        fail(Exit.FAILED, f"request {request_id} has no answer on {dataset}", hint=hint)
    with explain_errors(), output_in(out, replace=replace):
        if pairs:
            for comparison, groups in pairs.items():
                say("\n".join(pair_lines(found[0], comparison, *groups, simultaneous=all_pairs)))
        elif json:
            write_lines(map(encode_answer, found))
        elif request_id is not None:
            say("\n\n".join(map(answer_text, found)))
        elif found:
            stdout().print(answer_table(found))
        else:
            say(f"{dataset} has no answers that you may see")


def _last(
    answers: Iterable[NoisyAnswer], request_id: str | None, analyst: str | None, last: int
) -> list[NoisyAnswer]:
    return list(
        deque(
            (
                each
                for each in answers
                if request_id in {None, each.request_id} and analyst in {None, each.analyst}
            ),
            maxlen=last,
        )
    )
