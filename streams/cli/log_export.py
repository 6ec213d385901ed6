"""Writes a decision log, or the decisions that a filter chooses, to stdout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from accountant.records.names import is_name
from accountant.suggest import did_you_mean
from streams.cli.printing.exit_codes import Exit
from streams.cli.printing.exits import check_output_complete, fail
from streams.cli.printing.say import say
from streams.log.log_filter import Chosen, LogFilter, last_of_all

if TYPE_CHECKING:
    from rich.progress import Progress

    from accountant.replay.state_comparison import StateRows
    from streams.log.decision_log import DecisionLog, Part


class LogExport:
    """One export of a log.

    Args:
        bars: shows how far the log has been read.
    """

    def __init__(self, source: DecisionLog, wanted: LogFilter, bars: Progress) -> None:
        self._source = source
        self._wanted = wanted
        self._bars = bars
        self._found = 0
        self._is_cut = False  # the beginning is in an archive that was not named
        self._datasets: set[str] | None = None  # None: the log does not list them

    def run(self) -> None:
        """Write the chosen decisions; explain on stderr what they are, or why there are none."""
        from streams.cli.printing.safe_streams import reader_is_gone

        if self._wanted.tail is None:
            self._write_in_order()
        else:
            self._write_last(self._wanted.tail)
        if reader_is_gone():
            return
        check_output_complete()
        if self._wanted.is_whole_log:
            return
        if not self._found:
            self._explain_none()
        say(
            "these decisions are a part of the log: `accountant audit` checks a whole one only",
            err=True,
        )

    def _write_in_order(self) -> None:
        for part in self._parts():
            # An id may be searched in what is there; it is named at most a few times.
            if part.sealed is not None and self._wanted.request_id is None:
                _ask_for_archives(part)
            with self._counted(part) as values:
                chosen: Iterable[bytes] = values
                if not self._wanted.is_whole_log:
                    chosen = (each.value for each in self._wanted.oldest_first(part, values))
                if not self._write(chosen):
                    return

    def _write_last(self, tail: int) -> None:
        found: list[list[Chosen]] = []
        for part in self._parts():
            with self._counted(part) as values:
                last = self._wanted.last(part, values)
            if part.sealed is not None and len(last) < tail and self._wanted.request_id is None:
                _ask_for_archives(part)
            found.append(last)
        for part_last in last_of_all(found, tail):
            if not self._write(each.value for each in part_last):
                return

    def _parts(self) -> Iterator[Part]:
        from accountant.times import from_iso

        since = self._wanted.since
        for part in self._source.parts(since=None if since is None else max(0, from_iso(since))):
            self._is_cut |= part.sealed is not None
            if self._wanted.dataset is not None and part.state is not None:
                self._datasets = (self._datasets or set()) | _datasets(part.state)
            yield part

    @contextmanager
    def _counted(self, part: Part) -> Iterator[Iterator[bytes]]:
        from streams.cli.printing.output import count_progress

        task = self._bars.add_task(f"partition {part.number}", total=part.total)
        with count_progress(self._bars, part.values, task) as values:
            yield values

    def _write(self, values: Iterable[bytes]) -> bool:
        """Write decisions; return whether the reader of the output is still there."""
        from streams.cli.printing.output import write_lines
        from streams.cli.printing.safe_streams import reader_is_gone

        for value in values:
            write_lines([value])
            self._found += 1
            if reader_is_gone():
                return False
        return True

    def _explain_none(self) -> NoReturn:
        wanted, hint = self._wanted, None
        if self._is_cut:
            hint = "to search an archive too, add --archive FILE"
        if wanted == LogFilter(request_id=wanted.request_id):
            what = f"this log has no decision on request {wanted.request_id}"
            fail(Exit.FAILED, what, hint=hint)
        known = self._datasets
        if wanted.dataset is not None and known is not None and wanted.dataset not in known:
            meant = did_you_mean(wanted.dataset, known)()
            fail(Exit.FAILED, f"this log has no dataset {wanted.dataset}", hint=meant or hint)
        fail(Exit.FAILED, f"no decision in this log matches {_options(wanted)}", hint=hint)


def _options(wanted: LogFilter) -> str:
    """Return the options that choose these decisions."""
    names = ("--dataset", "--id", "--since", "--until", "--tail")
    pairs = zip(names, wanted, strict=True)
    return " ".join(f"{name} {value}" for name, value in pairs if value is not None)


def _datasets(state: StateRows) -> set[str]:
    """Return the names of the datasets that have a row."""
    keys = (key.decode(errors="replace") for key in state.rows)
    return {key for key in keys if is_name(key)}


def _ask_for_archives(part: Part) -> NoReturn:
    assert part.archived is not None
    fail(
        Exit.USAGE,
        f"the beginning of this log was archived, decisions 1 to {part.archived[0]}, and this "
        "export may need it",
        hint="name each archive with --archive FILE, in order; or choose later decisions only, "
        "with --since or --tail",
    )
