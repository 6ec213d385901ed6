"""`accountant demo`: replay a simulated week of requests, show it, and audit the log."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import explain_errors, fail
from streams.cli.reading.options import Json, ReplaceLedger
from streams.clock import SystemClock, steady

if TYPE_CHECKING:
    from rich.console import Console

    from streams.cli.demo.screen import Screen
    from streams.cli.demo.week import DemoRequest, Opening
    from streams.client import AsyncAccountant


def demo(
    kafka: Annotated[
        bool, typer.Option("--kafka", help="Start a real one-node Kafka and a worker for it.")
    ] = False,
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            help="Use this running ledger; the demo's datasets stay there. Over HTTP: no audit.",
        ),
    ] = None,
    file: Annotated[
        Path | None, typer.Option(help="Keep the ledger in this file. Default: a temporary file.")
    ] = None,
    requests: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Number of requests in the week.")
    ] = 400,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            "-v",
            help="Also show each decision, odometer and limit.",
        ),
    ] = False,
    replace_ledger: ReplaceLedger = False,
    json: Json = False,
) -> None:
    """Replay a week of five analysts' requests on three datasets, then audit the log.

    Two teams share the budgets, with limits, a pace and a reserved share. Shows the budgets of each
    evening, the moment one runs out, and a refusal by each limit. Uses a ledger in a temporary
    file. With --json the last line is one object: requests, granted, refused (by reason),
    exhausted_by (by limit), audit, seconds.
    """
    from streams.cli.demo import week
    from streams.cli.demo.screen import Screen
    from streams.cli.printing.output import print_json, stdout

    if sum((kafka, url is not None, file is not None)) > 1:
        fail(Exit.USAGE, "--kafka, --url and --file exclude one another")
    console = stdout()
    started = steady()
    asks = week(requests)
    screen = Screen(console, requests, verbose=verbose)
    # Dataset names can never be used again, so a ledger that stays gets names with a suffix.
    suffix = "" if url is None and file is None else f"-{SystemClock().now() & 0xFFFFFF:06x}"
    if url is not None:
        _say_what_stays(console, url, suffix)
    screen.introduce()
    with explain_errors(), _place(console, kafka=kafka, url=url, file=file) as where:
        asyncio.run(_run(where, asks, screen, suffix, replace_ledger=replace_ledger))
        audit, run_audit = _audited(where)
    seconds = steady() - started
    if kafka:
        shown = "a Kafka broker and a worker, both stopped now; --url uses a broker that stays"
    else:
        shown = where if url or file else "a temporary file; --file keeps it"
    screen.summary(audit=audit, run_audit=run_audit, seconds=seconds, where=shown)
    if json:
        others = {k: n for k, n in screen.outcomes.items() if not k.answers_request}
        print_json(
            {
                "requests": screen.outcomes.total(),
                "granted": sum(n for k, n in screen.outcomes.items() if k.charges),
                "refused": dict(screen.reasons),
                "exhausted_by": dict(screen.exhausted_by),
                **others,
                "audit": audit,
                "seconds": round(seconds, 3),
            }
        )
    raise typer.Exit(Exit.OK if audit in {"ok", "skipped"} else Exit.FAILED)


@contextmanager
def _place(console: Console, *, kafka: bool, url: str | None, file: Path | None) -> Iterator[str]:
    from streams.cli.demo.targets import ledger_file, local_kafka

    if url is not None:
        yield url
    elif not kafka:
        with ledger_file(file) as where:
            yield where
    else:
        from streams.cli.printing.output import stderr
        from streams.errors import install_command
        from streams.testing import BrokerError, KafkaUnavailable

        with ExitStack() as stack:
            try:
                with stderr().status("starting a one-node Kafka (downloaded the first time)"):
                    where = stack.enter_context(local_kafka())
            except KafkaUnavailable as error:
                cause, hint = error.__cause__, None
                if isinstance(cause, ImportError):
                    hint = f"run {install_command('local-kafka')}"
                elif cause is not None:
                    hint = "check the network: the first run downloads Kafka from Maven Central"
                fail(Exit.UNAVAILABLE, str(error), hint=hint)
            except BrokerError as error:
                fail(Exit.UNAVAILABLE, str(error))
            console.print(f"[dim]Kafka runs at {where}, with one worker[/]")
            yield where


async def _run(
    where: str, asks: list[DemoRequest], screen: Screen, suffix: str, *, replace_ledger: bool
) -> None:
    from streams.cli.demo.replay import divide, open_datasets, replay
    from streams.cli.demo.team_limits import team_limits
    from streams.cli.printing.output import progress
    from streams.client import AsyncAccountant

    async with AsyncAccountant(where, replace_ledger=replace_ledger) as ledger:
        for decision in await open_datasets(ledger, suffix):
            if not decision.outcome.is_applied:
                fail(Exit.FAILED, f"{decision.dataset} cannot be opened: {decision.reason}")
        for opening in _openings():
            for decision in await divide(ledger, opening, suffix):
                if not decision.outcome.is_applied:
                    fail(Exit.FAILED, f"{decision.dataset} cannot be divided: {decision.reason}")
        names = {opening.dataset + suffix for opening in _openings()}
        day = asks[0].day
        # A bar on stderr and lines on stdout would overwrite each other.
        with progress(wanted=not screen.verbose) as bars:
            task = bars.add_task("deciding", total=len(asks))
            async for batch in replay(ledger, asks, suffix):
                if batch[0].ask.day != day:
                    await _evening(ledger, names, screen, day)
                day = batch[0].ask.day
                screen.show(batch)
                bars.advance(task, len(batch))
        await _evening(ledger, names, screen, day)
        screen.budgets()
        if screen.verbose:
            screen.teams(await team_limits(ledger, names), day)
        screen.refusals()


def _say_what_stays(console: Console, url: str, suffix: str) -> None:
    """Print what the demo leaves in a running ledger, and what it cannot do there."""
    from streams.address import ledger_url

    with explain_errors():
        where = ledger_url(url)
    names = ", ".join(opening.dataset + suffix for opening in _openings())
    console.print(f"[dim]opens {names} at {url}; a dataset is permanent, so they stay there[/]")
    if where.kind == "http":
        console.print(
            "[dim]the whole log cannot be read over HTTP, so the demo ends without an audit: run "
            "`accountant audit --url` with the ledger's file or broker[/]"
        )


def _openings() -> tuple[Opening, ...]:
    from streams.cli.demo import DATASETS

    return DATASETS


async def _evening(ledger: AsyncAccountant, names: set[str], screen: Screen, day: int) -> None:
    screen.evening([view for view in await ledger.datasets() if view.dataset in names], day)


def _audited(where: str) -> tuple[str, int]:
    from streams.address import ledger_url
    from streams.audit.log_audit import run_audit
    from streams.cli.printing.audit_progress import audit_bars
    from streams.cli.reading.log_at import log_at

    if ledger_url(where).kind == "http":
        return "skipped", 0
    with audit_bars() as bars:
        reports = run_audit(log_at(where), progress=bars)
    wrong = [r.first_disagreement for _, r in reports if r.first_disagreement is not None]
    if wrong:
        first = wrong[0]
        return f"failed: decision {first.partition_sequence}, {first.what}", 0
    return ("ok" if reports else "failed: empty"), sum(report.records for _, report in reports)
