"""`accountant audit`: decide every request of a log again, and check its chain and sums."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from streams.cli.printing.checkpoints import evidence_of, show_told, tell
from streams.cli.printing.exits import Exit, explained, fail
from streams.cli.printing.say import say
from streams.cli.reading.options import DEFAULT_URL, Archives, Json, LogUrl
from streams.errors import Refused

if TYPE_CHECKING:
    from accountant.replay.audit import AuditReport, Disagreement
    from streams.cli.reading.log_reader import LogSource, Part
    from streams.evidence.comparison import Evidence

_HEAD: Final = re.compile(r"([0-9]{1,19}):(sha256:[0-9a-fA-F]{64})")
_HEAD_RULE: Final = "must be NUMBER:sha256: and 64 hexadecimal digits"
_LEDGER: Final = re.compile(r"[0-9a-f]{32}|sha256:[0-9a-f]{64}")
_LEDGER_RULE: Final = "must be the 32 hexadecimal digits that `accountant head` prints as ledger"


def audit(
    target: Annotated[
        str | None,
        typer.Argument(help="A ledger's file, an exported log, or an address. Default: --url."),
    ] = None,
    url: LogUrl = DEFAULT_URL,
    head: Annotated[
        str | None,
        typer.Option(help="NUMBER:sha256:... of a decision that must be there, kept elsewhere."),
    ] = None,
    checkpoints: Annotated[
        str | None,
        typer.Option(
            help="Signed checkpoints that the log must agree with: a directory, or "
            "kafka://HOST:PORT/TOPIC."
        ),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(help="A public key that signs them (`accountant key show`), or its file."),
    ] = None,
    ledger: Annotated[
        str | None,
        typer.Option(help="The id that the log's ledger must have, kept with the key."),
    ] = None,
    receipt: Annotated[
        list[Path] | None,
        typer.Option(
            help="Receipts that the log must hold: JSON lines, or a store of answers.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    archive: Archives = None,
    from_seal: Annotated[
        bool,
        typer.Option(
            "--from-seal", help="Be content with what follows the seal of an archived log."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Check a whole decision log, from its first record.

    Checks the chain of hashes, the sequences and the sums, and decides every request again. Then
    compares each row of the ledger's state with what the log comes to; an exported log has none.
    A log alone cannot show that its end is missing: the head is taken from the ledger's state
    where there is one, or from --head. Exit code 1 if a record disagrees; the first is named.
    Of a log whose beginning was archived, only what follows the seal is checked unless --archive
    names every archive, in their order; without --from-seal that is exit code 1, too.
    """
    from streams.cli.printing.output import print_json
    from streams.cli.reading.log_reader import log_source

    with explained():
        wanted, ledger = _parsed(head), _ledger_id(ledger)
        evidence = evidence_of(checkpoints, key, receipt)
        reports = audited(log_source(target or url, archive or ()), wanted, evidence)
        looked = checkpoints is not None
        reports = [
            (number, _with_signatures(number, _of_ledger(report, ledger)))
            for number, report in reports
        ]
        told = None
        if evidence is not None:
            told = tell(evidence, reports, looked=looked, is_meant=ledger is not None)
    right = bool(reports) and all(report.right for _, report in reports)
    right = right and (told is None or told.ok)
    whole = right and all(report.ok for _, report in reports)
    if json:
        partitions = [{"partition": number, "report": report} for number, report in reports]
        result = "ok" if whole else "from the seal on" if right else "failed"
        result_of = {} if told is None else {"checkpoints": told}
        print_json(
            {"audit": result, "head_given": head is not None, "partitions": partitions} | result_of
        )
    else:
        for number, report in reports:
            _show(number, report, head_given=head is not None or looked)
        if told is not None:
            show_told(told)
        if not reports:
            say("the log is empty: there is not even a genesis")
    if not whole and not (right and from_seal):
        raise typer.Exit(Exit.FAILED)


def audited(
    source: LogSource,
    head: tuple[int, str] | None = None,
    evidence: Evidence | None = None,
) -> list[tuple[int, AuditReport]]:
    """Return the report on each partition of a log, showing progress on stderr.

    Args:
        head: number and hash of a decision that one of the partitions must hold; a log that
            was still written while it was copied may go on behind it.
        evidence: is given what the log has where checkpoints look.
    """
    from accountant.replay.audit import audit as audit_log
    from streams.cli.printing.output import counted, progress

    reports = []
    hashes: list[str | None] = []  # of the decision that has the head's number, by part
    with progress() as bars:
        for part in source.parts():
            task = bars.add_task(f"auditing partition {part.number}", total=part.total)
            held = None if part.state is None else part.state.end
            wanted = [at for at in (held, None if part.sealed else part.archived) if at]
            found: dict[int, str | None] = {at[0]: None for at in (head, *wanted) if at}
            if evidence is not None:
                found |= dict.fromkeys(evidence.numbers(part.number))
            with counted(bars, part.values, task) as counting:
                watched = _Watched(part, counting, found, evidence)
                values = iter(watched)
                report = audit_log(
                    values,
                    expected_head=part.head,
                    sealed=part.sealed,
                    state=part.state,
                    gapless=part.gapless,
                )
                # What lies behind a disagreement, to reach the next part: damage there is told
                # later.
                with suppress(Refused):
                    for _ in values:
                        pass
            if evidence is not None:
                evidence.take(part.number, found, watched.last)
            for at in wanted:
                if found[at[0]] != at[1]:
                    report = _without(report, at, found[at[0]])
            reports.append((part.number, report))
            hashes.append(None if head is None else found[head[0]])
    if head is not None and head[1] not in hashes:
        pairs = zip(reports, hashes, strict=True)
        reports = [(number, _without(report, head, there)) for (number, report), there in pairs]
    return reports


class _Watched:
    """The values of one part as they are read, and what is looked for among them.

    Attributes:
        found: hashes by number, None for what is looked for and not found yet.
        last: number of the last value that was read, -1 for none.
    """

    def __init__(
        self,
        part: Part,
        values: Iterable[bytes],
        found: dict[int, str | None],
        evidence: Evidence | None,
    ) -> None:
        self.found = found
        self.last = -1
        self._part = part
        self._values = values
        self._evidence = evidence

    def __iter__(self) -> Iterator[bytes]:
        from accountant.partition import hash_of

        for number, value in zip(self._part.numbers(), self._values, strict=False):
            if self.last < 0 and self._evidence is not None:
                self._evidence.begin(self._part.number, value)
            if number in self.found:
                self.found[number] = hash_of(value)
            self.last = number
            yield value


def _without(report: AuditReport, head: tuple[int, str], there: str | None) -> AuditReport:
    """Return the report on a log that does not hold a decision known from elsewhere.

    Args:
        there: the hash of the decision that has its number, None if the log ends before it.
    """
    import msgspec

    from accountant.replay.audit import Disagreement

    if not report.right:
        return report
    number = head[0]
    if report.sealed is not None and there is None and number < report.sealed:
        what = f"decision {number} is in an archive of the log, or was made before its seal"
        fail(Exit.USAGE, f"--head {number}: {what}", hint="name each archive with --archive FILE")
    ends = f"the log ends at decision {report.sequence} {report.head}, before decision {number}"
    why = "decisions are missing, or the head is another log's"
    missing = Disagreement(
        partition_sequence=number,
        what="head",
        expected=f"{number} {head[1]}",
        found=f"{ends}: {why}" if there is None else f"{number} {there}",
    )
    return msgspec.structs.replace(report, ok=False, first_disagreement=missing)


def _of_ledger(report: AuditReport, ledger: str | None) -> AuditReport:
    """Return the report, which disagrees where the log is of another ledger than was asked for."""
    import msgspec

    from accountant.replay.audit import Disagreement

    if ledger is None or report.ledger == ledger or not report.right:
        return report
    other = Disagreement(
        partition_sequence=0, what="ledger", expected=ledger, found=str(report.ledger)
    )
    return msgspec.structs.replace(report, ok=False, first_disagreement=other)


def _with_signatures(number: int, report: AuditReport) -> AuditReport:
    """Return the report, which disagrees where a record in it has a wrong signature."""
    import msgspec

    from streams.evidence.log_signatures import first_wrong_signature

    wrong = first_wrong_signature(report, number) if report.right else None
    if wrong is None:
        return report
    return msgspec.structs.replace(report, ok=False, first_disagreement=wrong)


def _parsed(head: str | None) -> tuple[int, str] | None:
    if head is None:
        return None
    from accountant.errors import RequestInvalid

    parts = _HEAD.fullmatch(head)
    if parts is None:
        raise RequestInvalid("--head", _HEAD_RULE, head)
    return int(parts[1]), parts[2].lower()


def _ledger_id(ledger: str | None) -> str | None:
    if ledger is None:
        return None
    from accountant.errors import RequestInvalid

    found = ledger.strip().lower()
    if _LEDGER.fullmatch(found) is None:
        raise RequestInvalid("--ledger", _LEDGER_RULE, ledger)
    return found


def _show(number: int, report: AuditReport, *, head_given: bool) -> None:
    from rich.markup import escape

    from accountant.display.times import moment
    from accountant.replay.check_rows import REMAKE_ROWS
    from streams.cli.printing.output import stdout

    wrong = report.first_disagreement
    for loss in report.rollbacks:
        lost = f"the decisions from {loss.rollback.first} to {loss.rollback.last} were given up"
        stdout().print(
            f"[yellow]rollback[/] partition {number}, decision {loss.partition_sequence} at "
            f"{moment(loss.decided_at)}: {lost}: {escape(loss.note)}; in the name of "
            f"key {escape(loss.rollback.key)}",
            soft_wrap=True,
        )
    for named in report.key_changes:
        change = named.change
        unsigned = "" if change.signature else " (unsigned)"
        stdout().print(
            f"[yellow]key[/] partition {number}, decision {named.partition_sequence} at "
            f"{moment(named.decided_at)}: {escape(change.key)} after {escape(change.by)}"
            f"{unsigned}: {escape(named.note)}",
            soft_wrap=True,
        )
    for each in report.administered:
        said = f"made {each.member} {' and '.join(each.roles)} on {each.dataset}"
        if not each.roles:
            said = f"removed {each.member} from {each.dataset}"
        stdout().print(
            f"[yellow]administrator[/] partition {number}, decision {each.partition_sequence} at "
            f"{moment(each.decided_at)}: {each.by} has {said}"
            f"{f': {escape(each.reason)}' if each.reason else ''}",
            soft_wrap=True,
        )
    if wrong is None and report.sealed is not None:
        stdout().print(
            f"[yellow]right from the seal on[/] partition {number}: {report.records} decisions "
            f"from decision {report.sealed} on, {report.decided_again} decided again"
            f"{_compared(report)}\n"
            f"   ledger {report.ledger}\n   head {report.sequence}:{report.head}\n"
            "   what is before the seal was not decided again: to check the whole log, name each "
            "archive with --archive FILE",
            soft_wrap=True,
        )
        return
    if wrong is None:
        kinds = ", ".join(f"{count} {kind}" for kind, count in report.outcomes.items())
        stdout().print(
            f"[green]ok[/] partition {number}: {report.records} decisions of "
            f"{report.datasets} datasets, {report.decided_again} decided again "
            f"({kinds}){_compared(report)}\n   ledger {report.ledger}\n"
            f"   head {report.sequence}:{report.head}",
            soft_wrap=True,
        )
        if not head_given:
            stdout().print(
                "   whether decisions are missing after this one, as in an old copy, only --head "
                "with a head kept elsewhere can show",
                style="dim",
                soft_wrap=True,
            )
        return
    if wrong.row is not None:
        stdout().print(
            f"[bold red]disagrees[/] partition {number}, `state`, {escape(wrong.row)}, "
            f"field {escape(wrong.what)}\n"
            f"   expected {escape(wrong.expected[:400])}\n"
            f"   found    {escape(wrong.found[:400])}\n"
            f"   all {report.records} decisions agree with each other, and this row does not "
            f"follow from them. Stop the ledger and keep a copy. {REMAKE_ROWS}",
            soft_wrap=True,
        )
        return
    restore = "" if wrong.what == "ledger" else ", and restore it from a backup that passes"
    stdout().print(
        f"[bold red]disagrees[/] partition {number}, decision {wrong.partition_sequence}, "
        f"field {escape(wrong.what)}\n"
        f"   expected {escape(wrong.expected[:400])}\n"
        f"   found    {escape(wrong.found[:400])}\n"
        f"   {_checked(report, wrong)}. Keep the log as it is{restore}",
        soft_wrap=True,
    )


def _compared(report: AuditReport) -> str:
    return "" if report.rows is None else f", {report.rows} rows of `state` follow from them"


def _checked(report: AuditReport, wrong: Disagreement) -> str:
    """Return what was checked of a log that disagrees, as far as nothing else can be claimed."""
    number, records = wrong.partition_sequence, report.records
    since = "" if report.sealed is None else f" from decision {report.sealed} on"
    agree = f"all {records} decisions{since} agree with each other"
    if wrong.what == "ledger":
        return f"{agree}; this log is another ledger's than the one that was asked for"
    if wrong.what.endswith(".signature"):
        return f"{agree}, but the key that this one names has not signed it"
    if wrong.what == "head":
        return f"{agree}, but {_not_at_head(wrong)}, or the head is another log's"
    if not records:
        return "no decision before it was checked"
    if wrong.what != "previous":
        # An edit that is hashed anew is found where the new hashes end, or where the sums differ.
        return f"the {records} decisions before it{since} agree with each other"
    which = f"decision {number - 1} or {number} was changed, or both"
    if records == 1:
        return f"{which}; no other decision before them was checked"
    return f"{which}; the {records - 1} before these two{since} agree with each other"


def _not_at_head(wrong: Disagreement) -> str:
    """Return how a log, whose decisions agree with each other, differs from a head."""
    expected, found = wrong.expected.split()[0], wrong.found.split()[0]
    if found == expected:
        return f"decision {found} has another hash: it or one before it was changed"
    return "the log does not end at the head: decisions are missing or were added"
