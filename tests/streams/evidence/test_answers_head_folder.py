"""Signed heads of answers: the newest stay, and one that could not be stored is tried again."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.answers.heads import ChainHead, StoredHead
from streams.errors import Unavailable
from streams.evidence.answers_head_folder import AnswersHeadFolder, AnswersHeadSigner
from streams.testing import ManualBackground, ManualClock
from tests.streams.evidence.test_signed_checkpoint import HEAD, KEY

LEDGER = "5d" * 16


def folder_in(path: Path) -> AnswersHeadFolder:
    return AnswersHeadFolder(path, [], 0, LEDGER, KEY)


def head_of(number: int, *, branch: int = 0, begun: int = 0) -> StoredHead:
    return StoredHead(ChainHead(number, HEAD), branch, begun, 0)


@pytest.mark.parametrize("of", ["branch", "begun"])
def test_the_newest_head_stays_after_ten_beginnings(tmp_path: Path, of: str) -> None:
    folder = folder_in(tmp_path)
    for number in range(12):
        folder.put(head_of(1, **{of: number}), at=1)
    found = sorted(getattr(each, of) for each in folder.load())
    assert found == [8, 9, 10, 11]


def test_a_head_that_cannot_be_stored_is_signed_later(tmp_path: Path) -> None:
    is_away = True

    def open_folder() -> AnswersHeadFolder:
        if is_away:
            raise Unavailable("the disk is away")
        return folder_in(tmp_path)

    clock = ManualClock(0)
    background = ManualBackground(clock)
    signer = AnswersHeadSigner(open_folder, clock, seconds=1, background=background)
    signer.wake(head_of(7))
    background.pass_(2_000)
    assert [signer.trouble] == ["the disk is away"]
    is_away = False
    background.pass_(10_000)
    assert signer.trouble is None
    assert folder_in(tmp_path).load() == [head_of(7)]
