"""Two files of one ledger: what both have granted is found, and neither goes on."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from functools import partial
from pathlib import Path

import pytest

from streams.clock import SystemClock
from streams.embedded.checkpointing import digest_at, kept_of
from streams.embedded.file_ownership import stopped_ledger
from streams.embedded.service import EmbeddedService
from streams.errors import Refused, Unavailable
from streams.evidence.operator_records import accept_rollback
from streams.settings import Settings
from tests.streams.bodies import asking
from tests.streams.embedded.ledger_files import BORN, ask
from tests.streams.embedded.test_stored_checkpoints import (
    ask_and_close,
    back_up,
    checkpoint_report,
    cut,
    notes,
)
from tests.streams.uncompared import uncompared
from tests.streams.waiting import eventually


@pytest.fixture
def file(tmp_path: Path, checkpoint_directory: Path) -> Path:
    """A ledger of decisions 0 to 2."""
    file = tmp_path / "ledger.db"
    ask_and_close(file, 1)
    return file


@pytest.fixture
def copy(file: Path) -> Path:
    return Path(shutil.copy(file, file.with_name("copy.db")))


def start(file: Path) -> EmbeddedService:
    return EmbeddedService.open(file, Settings())


def refuse(service: EmbeddedService, number: int) -> bool:
    """Return whether a ledger decides nothing any more, and answers nobody."""
    if service.readiness().ready:
        return False
    with pytest.raises(Unavailable):
        service.submit_sync("requests", asking("census", BORN, number), 10)
    return True


def test_an_idle_ledger_and_its_copy_both_halt_once_both_have_granted(
    file: Path, copy: Path, checkpoint_directory: Path
) -> None:
    original, second = start(file), start(copy)
    ask(original, 2)
    with pytest.raises(Unavailable):
        ask(second, 12)
    eventually(lambda: refuse(original, 3) and refuse(second, 13))
    for service, other in ((original, copy), (second, file)):
        own = file if other == copy else copy
        (why,) = service.readiness().reasons
        assert f"fork: {other} is a file of this ledger, too. Its decision 3 was" in why
        accept = f"accountant accept-rollback --lost 3-3 --reason TEXT --url sqlite:///{own}"
        assert f"`{accept}`" in why
        assert "To try a copy, set ACCOUNTANT_CHECKPOINTS to another directory" in why
        service.close_sync()
    signed = [each.head for each in notes(checkpoint_directory) if each.sequence == 3]
    assert len({*signed}) == 2  # each of the two logs
    for each in (file, copy):
        with pytest.raises(Refused, match="is a file of this ledger, too"):
            start(each)


@pytest.mark.parametrize("first", ["original", "copy"])
def test_of_a_ledger_and_its_copy_one_alone_answers(file: Path, copy: Path, first: str) -> None:
    """Also between two checkpoints."""
    seldom = Settings(checkpoint_seconds=3_600)
    services = [EmbeddedService.open(each, seldom) for each in (file, copy)]
    one, other = services if first == "original" else reversed(services)
    ask(one, 2)
    answered = []
    for service, number in ((other, 12), (other, 13), (one, 3)):
        with contextlib.suppress(Unavailable):
            ask(service, number)
            answered.append(number)
    assert answered == []
    for service in services:
        assert "is a file of this ledger, too" in service.readiness().reasons[0]
        service.close_sync()


def test_a_copy_that_rests_learns_what_the_original_has_granted(file: Path, copy: Path) -> None:
    second = start(copy)
    ask_and_close(file, 2)
    eventually(lambda: refuse(second, 12))
    second.close_sync()
    ask_and_close(file, 3)  # the copy has granted nothing to anybody


def test_a_copy_is_reported_at_each_start(
    file: Path, copy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        second = start(copy)
        (note,) = checkpoint_report(second)[0]
        assert note.startswith(f"this file is a copy of {file}, or that is one of this")
        assert "set ACCOUNTANT_CHECKPOINTS to another directory" in note
        assert "ledger_copied" in caplog.text
        second.close_sync()
    original = start(file)
    (note,) = checkpoint_report(original)[0]
    assert f"a copy of {copy}" in note
    original.close_sync()


def test_a_copy_with_checkpoints_of_its_own_halts_nobody(
    file: Path, copy: Path, tmp_path: Path
) -> None:
    tried = EmbeddedService.open(copy, Settings(checkpoints=tmp_path / "tried"))
    ask(tried, 12, 13)
    tried.close_sync()
    ask_and_close(file, 2, 3)
    original = start(file)
    assert checkpoint_report(original)[0] == []
    original.close_sync()


def test_a_copy_that_the_original_has_outgrown_does_not_start(file: Path, copy: Path) -> None:
    ask_and_close(file, 2)
    with pytest.raises(Refused, match="this log ends at decision 2") as refused:
        start(copy)
    assert "--lost 3-3" in str(refused.value)
    ask_and_close(file, 3)


def test_a_copy_that_was_cut_or_deleted_still_counts(file: Path, copy: Path) -> None:
    ask_and_close(copy, 12, 13)
    cut(copy, to=3)
    with pytest.raises(Refused, match="--lost 3-4"):
        start(file)
    copy.unlink()
    with pytest.raises(Refused, match="ends at decision 2, but decision 4 was there"):
        start(file)


def test_a_backup_put_back_where_the_ledger_was_before_it_moved_is_refused(
    file: Path, tmp_path: Path
) -> None:
    back_up(file)
    moved = tmp_path / "moved.db"
    file.rename(moved)
    ask_and_close(moved, 2)
    moved.unlink()
    shutil.copy(tmp_path / "backup.db", file)
    with pytest.raises(Refused, match="ends at decision 2, but decision 3 was there"):
        start(file)


def test_one_file_by_two_paths_is_no_copy(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(file)
    for number, path in enumerate((link, file, link, file), 2):
        ask_and_close(path, number)
        service = start(path)
        assert checkpoint_report(service)[0] == []
        service.close_sync()


def test_checkpoints_of_a_path_that_cannot_be_read_are_reported_and_halt_nobody(
    file: Path, copy: Path, checkpoint_directory: Path
) -> None:
    start(copy).close_sync()
    (theirs,) = (
        each.parent for each in checkpoint_directory.rglob("file") if each.read_text() == str(copy)
    )
    shutil.rmtree(theirs / "0")
    (theirs / "0").write_text("no directory")
    service = start(file)
    (note,) = checkpoint_report(service)[0]
    assert note.startswith(f"{theirs} cannot be read")
    ask(service, 2)
    eventually(lambda: any(each.sequence == 3 for each in notes(checkpoint_directory)))
    service.close_sync()


def test_own_checkpoints_that_cannot_be_read_are_no_empty_ones(
    file: Path, checkpoint_directory: Path
) -> None:
    (note,) = {each.parent for each in checkpoint_directory.rglob("*.note")}
    note.rename(note.with_name("away"))
    note.write_text("no directory")
    with pytest.raises(Refused, match="because ACCOUNTANT_CHECKPOINTS_REQUIRED is set"):
        EmbeddedService.open(file, Settings(checkpoints_required=True))


def test_the_file_that_stays_goes_on_after_the_other_log_is_accepted_as_lost(
    file: Path, copy: Path
) -> None:
    ask_and_close(copy, 12)
    with pytest.raises(Refused, match="--lost 3-3"):
        start(file)
    accept(file, "3-3")
    ask_and_close(file, 2)
    with pytest.raises(Refused, match="this log lacks the rollback that began branch 1"):
        start(copy)
    ask_and_close(file, 3)


def accept(file: Path, lost: str) -> None:
    """Accept as the command does that decisions are lost."""
    settings, clock = Settings(), SystemClock()
    with stopped_ledger(file, settings, clock.now()) as (journal, genesis):
        done = accept_rollback(
            journal,
            genesis,
            clock,
            kept_of(file, settings),
            partial(digest_at, file),
            lost=lost,
            note="a copy was tried",
            check_name=uncompared,
        )
        assert asyncio.run(done) is not None
