"""`accountant ask` with a question: its answer, what it costs, and what is left."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, cast

import typer

from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import explain_errors, fail

if TYPE_CHECKING:
    from accountant.advice.preview import Preview
    from accountant.questions.noise import NoiseLaw
    from accountant.views.datasets import DatasetView
    from streams.client import Accountant, AskedQuestion, PrivateAnswer
    from streams.client.questions.asked_question import NoiseArguments
    from streams.replies.reply import Reply


@dataclass(frozen=True)
class WantedQuestion:
    """What the command line says of a question, if it is one.

    Attributes:
        text: the question, or a claim.
        error, relative_error: with or without ` at ` and a confidence.
    """

    dataset: str
    text: str
    epsilon: str | None
    rho: str | None
    sigma: str | None
    error: str | None
    relative_error: str | None
    law: str | None
    weights: str | None = None
    guess: int | None = None
    once: str | None = None

    @property
    def is_one(self) -> bool:
        """Whether the text is a question: no claim begins with the word of a statistic."""
        from accountant.questions.statistics import WORDS

        word = re.match(r"\s*(\w*)", self.text)
        return bool(self.question_options) or (word is not None and word[1] in WORDS)

    @property
    def question_options(self) -> list[str]:
        """The options that were typed and are for questions alone."""
        values = {
            "--epsilon": self.epsilon,
            "--rho": self.rho,
            "--sigma": self.sigma,
            "--error": self.error,
            "--relative-error": self.relative_error,
            "--law": self.law,
            "--weights": self.weights,
            "--guess": self.guess,
            "--once": self.once,
        }
        return [option for option, value in values.items() if value is not None]

    def checked(self, ledger: Accountant) -> AskedQuestion:
        """Return the question with its noise, as the dataset's schema allows it.

        Raises: RequestInvalid.
        """
        return ledger.question(self.dataset, self.text, **self.noise())

    def noise(self) -> NoiseArguments:
        """Return the arguments of the noise. Ends the command if they are not of one question."""
        from accountant.claims.text import is_claim

        if is_claim(self.text):
            typed = self.question_options
            verb = "is" if len(typed) == 1 else "are"
            what = f"{' and '.join(typed)} {verb} for questions, and {self.text} is a claim"
            fail(Exit.USAGE, what, hint=f"leave {' and '.join(typed)} out")
        forms = {
            "epsilon": self.epsilon,
            "rho": self.rho,
            "sigma": self.sigma,
            "error": self.error,
        }
        if sum(each is not None for each in forms.values()) != 1:
            what = "a question needs exactly one of --epsilon, --rho, --sigma and --error"
            fail(Exit.USAGE, what, hint="such as --epsilon 0.1, or --error '50 at 0.95'")
        error, confidence = _at(self.error)
        part, sure = _at(self.relative_error)
        if sure is not None and confidence is not None:
            fail(Exit.USAGE, "--error and --relative-error name one confidence together")
        return {
            "epsilon": self.epsilon,
            "rho": self.rho,
            "sigma": self.sigma,
            "error": error,
            "confidence": confidence or sure,
            "relative_error": part,
            "law": cast("NoiseLaw | None", self.law),  # a wrong word is refused
            "weights": self.weights,
        }


def _at(text: str | None) -> tuple[str | None, str | None]:
    """Return an error and its confidence, None where there is none."""
    if text is None:
        return None, None
    error, at, confidence = text.partition(" at ")
    return error.strip(), confidence.strip() if at else None


def ask_question(
    wanted: WantedQuestion,
    *,
    analyst: str | None,
    via: str | None,
    purpose: str,
    request_id: str | None,
    dry_run: bool,
    wait: float,
    url: str,
    token_file: Path | None,
    json: bool,
) -> NoReturn:
    """Ask a question, print its answer, and end the command."""
    with explain_errors():
        if dry_run:
            _dry_run(wanted, request_id, analyst, via, url, token_file, json)
        if wanted.guess is not None:
            fail(Exit.USAGE, "--guess is for --dry-run: an answer says its own error")
        ask = _ask if wanted.once is None else _ask_once
        ask(wanted, analyst, via, purpose, request_id, wait, url, token_file, json)


def _ask(
    wanted: WantedQuestion,
    analyst: str | None,
    via: str | None,
    purpose: str,
    request_id: str | None,
    wait: float,
    url: str,
    token_file: Path | None,
    json: bool,
) -> NoReturn:
    """Ask under an id, print the answer, and end the command."""
    from streams.cli.printing.command_request import CHARGED_ONCE, CommandRequest
    from streams.cli.printing.dry_run import more_after_grant
    from streams.cli.printing.say import say
    from streams.cli.printing.tables import number_words
    from streams.cli.reading.analysts import fail_without_analyst
    from streams.cli.reading.connect import connect
    from streams.cli.reading.dataset_reader import first_refusal, warn_if_void
    from streams.client.releases.grants import is_charged

    sending = CommandRequest(request_id, promise=CHARGED_ONCE)
    with connect(url, token_file, wait=wait) as ledger:
        if analyst is None and not ledger.token_source:
            fail_without_analyst(ledger)
        with sending as request:
            asked = wanted.checked(ledger)
            # A server without answers is noticed before anything is charged.
            answer = ledger.find_answer(wanted.dataset, request.id, analyst=analyst)
            if answer is not None and asked.is_answered_by(answer.record):
                _print_answer(answer, json=json)
                raise typer.Exit(Exit.OK)
            reply = ledger.ask(
                wanted.dataset,
                asked,
                analyst=analyst,
                purpose=purpose,
                request_id=request.id,
                via=via,
                wait=wait,
            )
            if not is_charged(reply):
                why = _why_alone(reply)
                request.print(
                    reply.decision,
                    as_json=json,
                    why=lambda: why or first_refusal(ledger, reply.decision, analyst),
                    hint=lambda: reply.hint or None,
                    waiting=reply.waiting,
                )
                raise typer.Exit(Exit.FAILED)
            if json:  # the answer alone is the output
                request.decided(reply.decision)
            elif asked.until is None:
                request.print(reply.decision, as_json=False)
            else:  # the answer says what was reserved, and what came back
                request.decided(reply.decision)
                say(f"reserved\n  id    {request.id}{number_words(reply.decision)}")
            if not json:
                warn_if_void(ledger, reply.decision)
            answer = ledger.find_answer(wanted.dataset, request.id, analyst=analyst, wait=wait)
            if answer is None:
                fail(Exit.UNAVAILABLE, _no_answer_after(wait), hint=request.again)
            _print_answer(answer, json=json)
            if not json and asked.until is None:
                then = more_after_grant(lambda: ledger.cost(str(reply.dataset), asked))
                if then is not None:
                    say(f"  then  {then}")
    raise typer.Exit(Exit.OK)


def _ask_once(
    wanted: WantedQuestion,
    analyst: str | None,
    via: str | None,
    purpose: str,
    request_id: str | None,
    wait: float,
    url: str,
    token_file: Path | None,
    json: bool,
) -> NoReturn:
    """Print the answer of a name, which the first command with it has charged; end the command."""
    from streams.cli.printing.print_decision import print_decision
    from streams.cli.reading.analysts import fail_without_analyst
    from streams.cli.reading.connect import connect
    from streams.client import NotGranted
    from streams.client.questions.answers import NotYetAnswered

    if request_id is not None:
        fail(Exit.USAGE, "--once excludes --id: a name has its own id")
    with connect(url, token_file, wait=wait) as ledger:
        if analyst is None and not ledger.token_source:
            fail_without_analyst(ledger)
        try:
            answer = ledger.answer(
                wanted.dataset,
                wanted.text,
                analyst=analyst,
                via=via,
                purpose=purpose,
                once=wanted.once,
                wait=wait,
                **wanted.noise(),
            )
        except NotYetAnswered:
            again = "run the same command again; it is charged once"
            fail(Exit.UNAVAILABLE, _no_answer_after(wait), hint=again)
        except NotGranted as refused:
            reply = refused.reply
            why = _why_alone(reply)
            print_decision(
                reply.decision,
                as_json=json,
                why=lambda: why,
                hint=lambda: reply.hint or None,
                waiting=reply.waiting,
            )
            raise typer.Exit(Exit.PENDING if reply.waits else Exit.FAILED) from None
        _print_answer(answer, json=json)
    raise typer.Exit(Exit.OK)


def _why_alone(reply: Reply) -> str:
    """Return why a request was refused, without the hint, which has a line of its own."""
    return reply.why.removesuffix(reply.hint).rstrip()


def _no_answer_after(wait: float) -> str:
    return f"the question is granted, and has no answer after {wait:g} s"


def _print_answer(answer: PrivateAnswer, *, json: bool) -> None:
    from accountant.answers import encode_answer
    from streams.cli.printing.output import write_lines
    from streams.cli.printing.say import say

    if json:
        write_lines([encode_answer(answer.record)])
    else:
        say(str(answer))


def _dry_run(
    wanted: WantedQuestion,
    request_id: str | None,
    analyst: str | None,
    via: str | None,
    url: str,
    token_file: Path | None,
    json: bool,
) -> NoReturn:
    """Print the derived claim and what the decision would be, and end the command."""
    from accountant.claims.text import claim_text
    from streams.cli.printing.dry_run import dry_run

    if request_id is not None:
        fail(Exit.USAGE, "--dry-run excludes --id: it sends nothing")

    def cost(ledger: Accountant) -> Preview:
        asked = wanted.checked(ledger)
        return ledger.cost(wanted.dataset, asked, analyst=analyst, via=via, guess=wanted.guess)

    def claim(shown: Preview, _: DatasetView) -> str | None:
        return f"  claim {claim_text(shown.derived.claim)}" if shown.derived else None

    dry_run(
        wanted.dataset,
        cost,
        claim,
        analyst=analyst,
        via=via,
        url=url,
        token_file=token_file,
        json=json,
    )
