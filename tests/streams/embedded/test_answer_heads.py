"""The head of the answers in a ledger's file never goes back."""

from __future__ import annotations

from itertools import pairwise

import apsw
import pytest

from streams.answers.heads import ChainHead, StoredHead
from streams.embedded.answer_heads import read_answer_head, write_answer_head

IN_ORDER = [
    StoredHead(ChainHead(number, f"sha256:{number}"), branch, begun, 0)
    for branch, begun, number in [(0, 0, 7), (0, 0, 8), (0, 1, 2), (1, 0, 1)]
]


@pytest.mark.parametrize(("older", "newer"), [*pairwise(IN_ORDER)])
def test_an_older_head_does_not_replace_a_newer_one(older: StoredHead, newer: StoredHead) -> None:
    db = apsw.Connection("")
    for head in (older, newer, older):
        write_answer_head(db, 0, head)
    assert read_answer_head(db, 0) == newer
    assert read_answer_head(db, 1) is None


def test_a_head_moves_where_its_log_begins() -> None:
    db, head = apsw.Connection(""), IN_ORDER[0]
    for begins in (0, 5):
        write_answer_head(db, 0, head._replace(begins=begins))
    assert read_answer_head(db, 0) == head._replace(begins=5)
