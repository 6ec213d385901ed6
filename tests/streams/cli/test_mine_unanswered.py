"""`accountant mine --unanswered`: the paid releases whose answers got lost, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.client import Accountant, NotGranted, ResultStore
from streams.client.releases.codec import decode_result, encode_result
from streams.client.releases.grants import Codec, Release
from streams.client.requests.requests import PreparedRequest
from tests.streams.cli.conftest import Command

CODEC = Codec(encode_result, decode_result)


def fails() -> int:
    raise KeyboardInterrupt


def begin_release(ledger: Accountant, store: ResultStore, claim: str) -> PreparedRequest:
    """Begin a release as a process does that ends before it hears the answer."""
    call = ledger._sender.prepare(ledger._draft("census", claim), 5)
    Release(store, call, CODEC, ledger.url, 5).record_request()
    return call


def test_charged_releases_without_an_answer_are_listed(opened: Command, tmp_path: Path) -> None:
    url, store = f"sqlite:///{tmp_path / 'accountant.db'}", ResultStore(tmp_path / "answers.db")
    where = {"ACCOUNTANT_ANSWERS": str(store.path)}
    assert "every charged release" in opened("mine", "--unanswered", **where).out
    with Accountant(url, analyst="ana") as ledger:
        ledger.release("census", "pure:0.001", lambda: 1, store=store)
        with pytest.raises(NotGranted):
            ledger.release("census", "pure:30", lambda: 1, store=store)
        with pytest.raises(KeyboardInterrupt) as failed:
            ledger.release("census", "pure:0.002", fails, store=store, purpose="a count")
        granted = begin_release(ledger, store, "pure:0.003")
        assert ledger._sender.reply_to(granted, 5).granted
        refused = begin_release(ledger, store, "pure:40")
        assert not ledger._sender.reply_to(refused, 5).granted
        unsent = begin_release(ledger, store, "pure:0.004")
    rows = opened("mine", "--unanswered", "--json", **where).rows
    assert [(row["request_id"], row["charged"]) for row in rows] == [
        (failed.value.request_id, True),  # type: ignore[attr-defined]
        (granted.request_id, True),
        (unsent.request_id, None),
    ]
    first = rows[0]
    assert (first["dataset"], first["analyst"], first["purpose"]) == ("census", "ana", "a count")
    assert first["claim"] == "pure:0.002, unit person, neighbours add_remove"
    shown = opened("mine", "--unanswered", **where)
    assert shown.code == 0, shown.err
    assert granted.request_id in shown.out
    assert "release again with the same request_id" in shown.out
    assert opened("mine", "--unanswered", "--json", "--analyst", "ben", **where).rows == []
    other = ("--url", "sqlite:///other.db")
    assert opened("mine", "--unanswered", "--json", *other, **where).rows == []
    with Accountant(url, analyst="ana") as ledger:
        for row in rows:
            claim = row["claim"].partition(",")[0]
            again = {"request_id": row["request_id"], "purpose": row["purpose"]}
            assert ledger.release("census", claim, lambda: 7, store=store, **again) == 7
    assert "every charged release" in opened("mine", "--unanswered", **where).out
