"""Two heads of one place in a log, both signed: both are kept, and nothing is decided on."""

from __future__ import annotations

from pathlib import Path

import pytest

from accountant.partition import hash_of
from streams.embedded.checkpointing import ledger_id
from streams.embedded.ledger_file import read_decisions
from streams.embedded.service import EmbeddedService
from streams.errors import Refused, Unavailable
from streams.evidence.keys import SigningKey
from streams.evidence.signed_checkpoint import Checkpoint, sign_checkpoint
from streams.evidence.store import write_checkpoint
from streams.settings import Settings
from tests.streams.bodies import asking
from tests.streams.embedded.ledger_files import BORN, ask
from tests.streams.embedded.test_stored_checkpoints import head_of, notes, opened
from tests.streams.waiting import eventually

OTHER = hash_of(b"what another process has decided")


@pytest.fixture
def file(tmp_path: Path, checkpoint_directory: Path) -> Path:
    return tmp_path / "ledger.db"


def sign(
    file: Path, checkpoint_directory: Path, sequence: int, *, branch: int = 0, head: str = OTHER
) -> Path:
    """Keep a checkpoint beside the ledger's own, as a process on another machine would."""
    (folder,) = {note.parent for note in checkpoint_directory.rglob("*.note")}
    checkpoint = Checkpoint(ledger_id(file), 0, branch, sequence, head, 1_800_000_000_000)
    return write_checkpoint(
        folder,
        checkpoint,
        sign_checkpoint(checkpoint, SigningKey.load(checkpoint_directory / "key")),
    )


@pytest.mark.parametrize("place", [1, 3])
def test_a_fork_ends_the_ledger_at_once_and_both_heads_stay(
    file: Path, checkpoint_directory: Path, place: int
) -> None:
    service = opened(file)
    ask(service, 1, 2)
    eventually(
        lambda: bool(notes(checkpoint_directory)) and notes(checkpoint_directory)[-1].sequence == 3
    )
    other = sign(file, checkpoint_directory, place)
    ask(service, 3)
    eventually(lambda: not service.readiness().ready)
    (reported,) = service.readiness().reasons
    assert reported.startswith(f"fork: two logs of this ledger were signed. Decision {place} was")
    assert OTHER in reported
    with pytest.raises(Unavailable, match="fork: two logs"):
        service.submit_sync("requests", asking("census", BORN, 4), 10)
    service.close_sync()
    assert other.exists()
    assert {each.sequence for each in notes(checkpoint_directory)} >= {place, 3}
    with pytest.raises(Refused, match="fork: two logs"):
        EmbeddedService.open(file, Settings())


def test_a_head_of_the_same_log_or_of_a_later_owner_is_no_fork(
    file: Path, checkpoint_directory: Path
) -> None:
    service = opened(file)
    ask(service, 1, 2)
    eventually(
        lambda: bool(notes(checkpoint_directory)) and notes(checkpoint_directory)[-1].sequence == 3
    )
    values = list(read_decisions(file))
    sign(file, checkpoint_directory, 2, head=hash_of(values[2]))  # sent late
    later = sign(file, checkpoint_directory, 6)
    for number in (3, 4):
        ask(service, number)
        eventually(
            lambda number=number: any(n.sequence == number + 1 for n in notes(checkpoint_directory))
        )
    assert service.readiness().ready
    later.unlink()
    ask(service, 5, 6, 7)
    service.close_sync()
    assert notes(checkpoint_directory)[-1].sequence == head_of(file)[0]


def test_a_later_head_is_compared_once_the_log_is_there(
    file: Path, checkpoint_directory: Path
) -> None:
    service = opened(file)
    ask(service, 1)
    eventually(lambda: bool(notes(checkpoint_directory)))
    sign(file, checkpoint_directory, 4)
    ask(service, 2)
    eventually(lambda: any(each.sequence == 3 for each in notes(checkpoint_directory)))
    assert service.readiness().ready
    ask(service, 3)
    eventually(lambda: not service.readiness().ready)
    service.close_sync()
