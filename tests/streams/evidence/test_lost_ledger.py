"""A name remembers every ledger that it had, and what each of them decided."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.errors import Refused
from streams.evidence.keys import SigningKey
from streams.evidence.ledger_binding import check_name
from streams.evidence.lost_ledger import check_new_ledger
from streams.evidence.store import FileCheckpoints
from tests.streams.evidence.test_signed_checkpoint import HEAD

OLD, NEW = "0a" * 16, "0b" * 16


def sign(directory: Path, path: Path, *numbers: int) -> None:
    """Store checkpoints of the old ledger as a process that serves it at a path does."""
    key = directory / "signing-key"
    if not key.exists():
        directory.mkdir(parents=True, exist_ok=True)
        SigningKey.create(key, "census")
    store = FileCheckpoints(directory, path, OLD, lambda _: False, key=key)
    for number in numbers:
        store.put(number, HEAD, 0, 1)


def test_a_single_decision_is_enough_to_be_missed(tmp_path: Path) -> None:
    directory, path = tmp_path / "checkpoints", tmp_path / "ledger.db"
    check_name(directory, str(path), OLD)
    sign(directory, path, 0)
    check_new_ledger(directory, path)  # it has decided nothing
    sign(directory, path, 1)
    with pytest.raises(Refused, match="go up to decision 1:"):
        check_new_ledger(directory, path)


@pytest.mark.parametrize("last", ["ledger.db", "moved.db"])
def test_the_largest_number_at_any_path_is_named(tmp_path: Path, last: str) -> None:
    directory, path = tmp_path / "checkpoints", tmp_path / "ledger.db"
    check_name(directory, str(path), OLD)
    for name in ("ledger.db", "moved.db"):
        sign(directory, tmp_path / name, *((3, 41, 7) if name == last else (1, 2)))
    with pytest.raises(Refused, match="go up to decision 41:"):
        check_new_ledger(directory, path)


def test_the_first_of_three_ledgers_is_accepted_back(tmp_path: Path) -> None:
    ledgers = [OLD, NEW, "0c" * 16]
    for ledger in ledgers:
        check_name(tmp_path, "ledger.db", ledger, begins=True)
    for ledger in (OLD, "0c" * 16, NEW, OLD):
        check_name(tmp_path, "ledger.db", ledger)
    with pytest.raises(Refused, match="another ledger's log"):
        check_name(tmp_path, "ledger.db", "0d" * 16)
