"""A ledger's file that was tampered with, in ten ways: an audit names it, and a start refuses."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Callable
from contextlib import closing, redirect_stdout
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import apsw
import pytest
import typer

from accountant.errors import LedgerFault
from accountant.times import from_iso
from streams.cli.audit import audit
from streams.client import Accountant
from streams.embedded.ledger_file import read_decisions
from streams.embedded.service import EmbeddedService
from streams.errors import Refused
from streams.evidence.keys import SigningKey
from streams.settings import Settings
from streams.testing import ManualClock
from tests.every_case import every_case
from tests.faults.fed_ledger import FedLedger
from tests.faults.forgery import WINDOW, History
from tests.nightly import rounds
from tests.streams.evidence.tampering import (
    KINDS,
    WOULD_DECIDE,
    Drawn,
    Sound,
    broken_at,
    named,
)

DRAWS = rounds(4, 60)
_OFF: Final = Settings(checkpoints="off")
_LOST: Final = re.compile(
    r"ends at decision \d+, but decision \d+ was there"
    r"|decision \d+ of the log is another one than at"
    r"|another ledger"
)
_BASIC = {"filter": "basic", "epsilon": "0.05"}


class Life(NamedTuple):
    """Two ledgers that nobody has tampered with.

    Attributes:
        files, other: what each was after each decision, by number.
        gap: number of the decision that was made hours after the one before it.
        clock: of a process that starts after the last decision.
    """

    sound: Sound
    files: list[Path]
    other: list[Path]
    gap: int
    clock: Callable[[], ManualClock]


class _Saved(History):
    """Keeps a copy of the ledger's file after each decision."""

    def __init__(self, ledger: FedLedger, file: Path) -> None:
        super().__init__(ledger)
        self._file = file
        self.files = list[Path]()
        self._save()

    def send(self, *given: Any, **more: Any) -> None:
        super().send(*given, **more)
        self._save()

    def _save(self) -> None:
        copy = self._file.with_name(f"{len(self.files)}.db")
        with closing(apsw.Connection(str(self._file))) as db:
            db.execute("VACUUM INTO ?", (str(copy),))
        self.files.append(copy)


def lived(directory: Path) -> tuple[_Saved, int]:
    """Have a ledger decide over some hours; return what it was, and when it ended."""
    directory.mkdir()
    with FedLedger(directory / "ledger.db", settings=_OFF) as ledger:
        reported = _Saved(ledger, directory / "ledger.db")
        reported.owner("open", "open", "ds", policy={**_BASIC, "alert_at": ["0.5", "1"]})
        reported.owner("open capped", "open", "capped", policy={
            "epsilon": "1", "delta": "1e-6", "most_per_request": "0.1"})  # fmt: skip
        for number in range(4):
            reported.ask(f"early {number}", "ds", "0.001")
        reported.again("repeat", "early 0")
        reported.again("conflict", "early 1", purpose="another")
        reported.ask("early capped", "capped", "0.05")
        reported.ask("above the cap", "capped", "0.9")
        reported.send("dead", "requests", b"{")
        # Behind this, a start that has `state` does not read what is above.
        reported.ask("hours later", "ds", "0.001", later=3 * WINDOW)
        reported.ask("exhausted", "ds", "0.06")
        reported.owner("amended", "amend", "ds", alert_at=["0.9"], follows=1)
        for number in range(5):
            reported.ask(f"late {number}", "ds", "0.002")
            reported.ask(f"late capped {number}", "capped", "0.01")
        reported.again("late repeat", "late 0")
        reported.ask("unknown", "nowhere", "0.001")
        reported.owner("close", "close", "capped")
        reported.ask("closed", "capped", "0.001")
        reported.ask("last", "ds", "0.001")
        return reported, ledger.clock.now()


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Life:
    directory = tmp_path_factory.mktemp("lives")
    (one, ended), (other, _) = lived(directory / "one"), lived(directory / "other")
    log, others = [*read_decisions(one.files[-1])], [*read_decisions(other.files[-1])]
    sound = Sound(log, others, len(log) // 2)
    gap = one.places["hours later"]
    return Life(sound, one.files, other.files, gap, lambda: ManualClock(ended + 1000))


class Case:
    """One file, tampered with as a draw has it.

    Attributes:
        file: of the ledger.
        place: where its checkpoints are.
    """

    def __init__(self, life: Life, kind: str, seed: int, directory: Path) -> None:
        self._life = life
        self.drawn = KINDS[kind](life.sound, Random(f"{kind}-{seed}"))
        self.place = directory / "kept"
        self.file = directory / "ledger.db"
        self.original = life.files[self.drawn.whole - 1]
        self._keep()
        shutil.copy(self.original, self.file)
        if kind in {"old-backup", "another-ledger"}:
            files = life.files if kind == "old-backup" else life.other
            shutil.copy(files[len(self.drawn.log) - 1], self.file)
        else:
            write(self.file, self.drawn)
        self.log = rows(self.file)

    def _keep(self) -> None:
        """Have the ledger's own process keep the checkpoints, one each time it ends."""
        for number in self.drawn.kept:
            shutil.copy(self._life.files[number], self.file)
            assert self.started(self.file, self.settings) is None
        assert len(list(self.place.rglob("*.note"))) == len(self.drawn.kept)

    @property
    def settings(self) -> Settings:
        return Settings(url=f"sqlite:///{self.file}", checkpoints=self.place)

    @property
    def reads_from(self) -> int:
        """Number of the first decision that a start reads which believes `state`."""
        return self._life.gap if self.drawn.whole > self._life.gap else 0

    def audited(self) -> str:
        """Return what the command prints, which must end as one that has found something."""
        key = SigningKey.load(self.place / "key").verifier.text
        with redirect_stdout(io.StringIO()) as out, pytest.raises(typer.Exit) as ended:
            audit(str(self.file), checkpoints=str(self.place), key=[key])
        assert ended.value.exit_code == 1, out.getvalue()
        return out.getvalue()

    def started(self, file: Path, settings: Settings) -> str | None:
        """Start a process on a file; return why it refuses, None if it would decide."""
        try:
            service = EmbeddedService.open(file, settings, clock=self._life.clock())
        except LedgerFault as error:
            return f"{type(error).__name__}: {error}"
        service.close_sync()
        return None

    def totals(self, file: Path) -> dict[str, Any]:
        """Return what each dataset of a file has spent, as a start believes it."""
        service = EmbeddedService.open(file, _OFF, clock=self._life.clock())
        found = {name: view.totals for name, view in service.views.datasets().items()}
        service.close_sync()
        return found

    def copied(self, name: str, file: Path | None = None) -> Path:
        copy = self.file.with_name(name)
        shutil.copy(file or self.file, copy)
        return copy


def rows(file: Path) -> list[tuple[int, bytes]]:
    with closing(apsw.Connection(str(file))) as db:
        return db.execute("SELECT sequence, value FROM decisions ORDER BY sequence").fetchall()


def write(file: Path, drawn: Drawn) -> None:
    """Write a tampered log into a ledger's file, and empty `state` if it was drawn so."""
    numbers = [n for n in range(len(drawn.log) + len(drawn.gap)) if n not in drawn.gap]
    with closing(apsw.Connection(str(file))) as db, db:
        times = dict(db.execute("SELECT sequence, decided_at FROM decisions"))
        db.execute("DELETE FROM decisions")
        for number, value in zip(numbers, drawn.log, strict=True):
            try:
                at = from_iso(json.loads(value)["decided_at"])
            except (KeyError, TypeError, ValueError):  # edited so
                at = times[min(number, max(times))]
            db.execute("INSERT INTO decisions VALUES (?, ?, ?)", (number, at, value))
        if drawn.without_state:
            db.execute("DELETE FROM state")


@pytest.mark.parametrize("kind", KINDS)
@every_case("seed", range(DRAWS))
def test_tampering_with_a_file_is_named_and_stops_decisions(
    life: Life, tmp_path: Path, kind: str, seed: int
) -> None:
    directory = tmp_path / str(seed)
    directory.mkdir()
    case = Case(life, kind, seed, directory)
    reported = case.audited()
    wrong = named(life.sound, case.drawn)
    assert all(each in reported for each in wrong), reported
    assert sum(reported.count(f"{kind}: ") for kind in ("truncated", "differs")) == len(
        [each for each in wrong if not each.startswith("no checkpoint")]
    ), reported
    broken = broken_at(case.drawn.log)
    if broken is None:
        assert wrong, "nothing shows it"
    else:
        shown = re.search(r"disagrees partition 0, decision (\d+), field", reported)
        assert shown, reported
        assert case.drawn.first <= int(shown[1]) <= broken, reported

    unseen = case.started(case.copied("unseen.db"), _OFF)
    why = case.started(case.file, case.settings)
    if kind in WOULD_DECIDE:
        assert unseen is None, unseen
        assert why is not None
    if why is None:
        assert not case.drawn.without_state
        # A start that believes `state` reads back only as far as ids are remembered,
        # and asks no more of what is before than that its end is there.
        assert case.drawn.first < case.reads_from
        assert case.reads_from - 1 not in case.drawn.gap
        assert case.totals(case.file) == case.totals(case.copied("original.db", case.original))
        return
    assert rows(case.file) == case.log  # nothing was decided
    if unseen is None:
        assert _LOST.search(why), why
        with pytest.raises(LedgerFault, match=_LOST):
            Accountant(settings=case.settings, clock=life.clock())
    else:
        assert why == unseen.replace("unseen.db", case.file.name)


@pytest.mark.parametrize("dropped", [1, 2])
def test_a_gap_before_the_records_that_a_start_reads_is_detected(
    life: Life, tmp_path: Path, dropped: int
) -> None:
    file = tmp_path / "ledger.db"
    shutil.copy(life.files[-1], file)
    # What is read first of the rest: its own number and hash agree with nothing before it.
    gap = range(life.gap - dropped + 1, life.gap + 1)
    with closing(apsw.Connection(str(file))) as db:
        db.execute("DELETE FROM decisions WHERE sequence BETWEEN ? AND ?", (gap[0], gap[-1]))
    left = rows(file)
    with pytest.raises(Refused, match=f"decision {life.gap} is missing"):
        EmbeddedService.open(file, _OFF, clock=life.clock())
    assert rows(file) == left
