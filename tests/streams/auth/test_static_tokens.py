"""A running server reloads its token file at once, and rejects every token where it is unsound."""

from __future__ import annotations

import contextlib
import inspect
import os
import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from streams.auth import static_tokens, token_file
from tests.streams.auth.provider import LocalProvider
from tests.streams.auth.token_server import TokenServer, wall
from tests.streams.gateway.records import request
from tests.streams.waiting import eventually


def test_a_token_works_once_created_and_fails_once_revoked(own: TokenServer) -> None:
    for number in range(20):
        token = own.make(f"local:a{number}")
        assert own.status(token) == 200
        assert token_file.revoke(own.tokens, f"local:a{number}", now=wall())
        assert own.status(token) == 401
    assert own.status(own.administrator) == 200


def test_a_token_is_refused_after_it_expires(own: TokenServer) -> None:
    token = own.make("local:ana", expires=wall() + 1_500)
    assert own.status(token) == 200
    eventually(lambda: own.status(token) == 401)


def test_two_tokens_of_one_name_are_revoked_separately(own: TokenServer) -> None:
    first, second = own.make("local:ana"), own.make("local:ana", another=True)
    rows, _ = token_file.read(own.tokens)
    token_file.revoke(own.tokens, rows[-2].id, now=wall())
    assert (own.status(first), own.status(second)) == (401, 200)


def _removed(file: Path) -> None:
    file.unlink()


def _open_to_others(file: Path) -> None:
    file.chmod(0o644)


def _writable_by_others(file: Path) -> None:
    file.chmod(0o620)


def _cut(file: Path) -> None:
    content = file.read_bytes()
    os.truncate(file, len(content) - 10)


def _empty(file: Path) -> None:
    os.truncate(file, 0)


def _a_directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


def _a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)


def _another_version(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b'"version": 1', b'"version": 2'))


def _unknown_field(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b'"id"', b'"role": "x", "id"'))


def _same_ids(file: Path) -> None:
    row = token_file.read(file)[0][0]
    token_file._write(file, (row, row))


UNSOUND: list[Callable[[Path], None]] = [
    _removed,
    _open_to_others,
    _writable_by_others,
    _cut,
    _empty,
    _a_directory,
    _a_pipe,
    _another_version,
    _unknown_field,
    _same_ids,
]


@pytest.mark.parametrize("spoil", UNSOUND, ids=lambda each: each.__name__)
def test_an_unusable_token_file_rejects_everybody_until_repaired(
    own: TokenServer, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    original, before = own.tokens.read_bytes(), own.last_sequence()
    spoil(own.tokens)
    shown = {"authorization": f"Bearer {own.administrator}"}
    answer = own.post("/requests", request(own.clock), **shown)
    assert answer.status_code == 503
    assert answer.json()["error"] == "authentication_unavailable"
    assert int(answer.headers["retry-after"]) >= 1
    assert str(tmp_path) not in answer.text
    assert own.status(None) == 401
    for shown_token in (own.administrator, None):
        ready = own.get("/readyz", shown_token)
        assert ready.status_code == 503
        assert not ready.json()["ready"]
        (why,) = ready.json()["reasons"]
        assert why.startswith("every token of the file of tokens is rejected")
        assert str(tmp_path) not in ready.text
    assert own.status(None, "/healthz") == 200
    assert own.last_sequence() == before
    if own.tokens.is_dir():
        own.tokens.rmdir()
    own.tokens.unlink(missing_ok=True)
    own.tokens.touch(0o600)
    own.tokens.write_bytes(original)
    eventually(lambda: own.status(own.administrator) == 200)
    assert own.get("/readyz", None).json() == {"ready": True}


def test_readyz_detects_an_unusable_token_file_without_other_requests(own: TokenServer) -> None:
    own.tokens.chmod(0o644)
    assert own.status(None, "/readyz") == 503
    own.tokens.chmod(0o600)
    eventually(lambda: own.status(None, "/readyz") == 200)


def test_a_server_with_a_provider_stays_ready_with_an_unusable_token_file(
    tmp_path: Path, provider: LocalProvider
) -> None:
    with TokenServer(tmp_path, provider=provider) as server:
        server.tokens.unlink()
        assert server.status(server.administrator) == 503
        assert server.status(provider.token("ana")) == 200
        ready = server.get("/readyz", None).json()
        assert (ready["ready"], "reasons" in ready) == (True, False)
        assert ready["notes"][0].startswith("every token of the file of tokens is rejected")


def test_creating_and_revoking_tokens_fails_no_concurrent_request(own: TokenServer) -> None:
    stop, statuses = threading.Event(), list[int]()

    def ask() -> None:
        while not stop.is_set():
            statuses.append(own.status(own.administrator))

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        for number in range(30):
            own.make(f"local:a{number}")
            token_file.revoke(own.tokens, f"local:a{number}", now=wall())
    finally:
        stop.set()
        asking.join()
    assert set(statuses) == {200}


def test_token_lookup_takes_constant_time() -> None:
    """Tokens are looked for by a keyed hash, and compared by what takes the same time for all."""
    source = inspect.getsource(static_tokens.StaticTokens.find)
    assert "hmac.compare_digest(known.hash, digest)" in source
    assert "self._known.get(self._key(digest))" in source
    assert "==" not in source
    key_source = inspect.getsource(static_tokens.StaticTokens._key)
    assert "hmac.digest(self._secret, digest" in key_source


@pytest.mark.slow
def test_an_event_stream_ends_when_its_token_is_revoked(
    own: TokenServer, caplog: pytest.LogCaptureFixture
) -> None:
    token = own.make("local:ana")
    shown = {"Authorization": f"Bearer {token}"}
    with own.http.stream("GET", "/events", headers=shown) as response:
        assert response.status_code == 200
        token_file.revoke(own.tokens, "local:ana", now=wall())
        for _ in response.iter_lines():
            pass  # until it ends, which is no error
    assert "request_failed" not in caplog.text
    assert own.status(own.administrator) == 200


@pytest.mark.slow
def test_an_event_stream_ends_when_its_token_changes_owner(own: TokenServer) -> None:
    names = ("local:ana", "local:ben")
    with contextlib.ExitStack() as streams:
        begun = list[httpx.Response]()
        for name in names:
            shown = {"Authorization": f"Bearer {own.make(name)}"}
            begun.append(streams.enter_context(own.http.stream("GET", "/events", headers=shown)))
        content = own.tokens.read_text("utf-8")
        own.tokens.write_text(content.replace('"local:ana"', '"local:dan"'), "utf-8")
        is_open = [": still here" in response.iter_lines() for response in begun]
    assert dict(zip(names, is_open, strict=True)) == {"local:ana": False, "local:ben": True}


def test_the_log_names_token_events_once_and_contains_no_token(
    own: TokenServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    token = own.make("local:ana")
    assert own.status(token) == 200
    token_file.revoke(own.tokens, "local:ana", now=wall())
    for _ in range(50):
        assert own.status(token) == 401
    lines = [record.getMessage() for record in caplog.records]
    events = [line for line in lines if "token" in line or "authentication" in line]
    for event in ("token_made", "token_revoked", "authentication_refused"):
        assert len([line for line in events if event in line]) == 1, lines  # not fifty
    text = "".join(lines)
    row = token_file.read(own.tokens)[0][-1]
    for secret in (token, token.removeprefix("acct_"), row.sha256):
        assert secret not in text
