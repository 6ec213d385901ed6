"""The provider's keys rotate while requests run."""

from __future__ import annotations

from pathlib import Path

from tests.provider.accountant_server import AccountantServer, Answered, asking, until
from tests.provider.real_provider import ES256, Key, RealProvider, header


def of(token: str, seen: list[Answered]) -> list[Answered]:
    return [each for each in list(seen) if each.token == token]


def test_key_rotation_ends_old_tokens_and_accepts_new_ones_at_once(
    tmp_path: Path, provider: RealProvider, first: Key
) -> None:
    second, third = Key.rsa("second"), Key.ec("third")
    with AccountantServer(tmp_path / "server", provider) as server:
        old = provider.token("ana")
        tokens = [old]
        with asking(server, tokens) as seen:
            until("an answer", lambda: of(old, seen))
            # Both keys are published: nobody notices the change, nor the provider's restart.
            provider.restart(second, first)
            newer = provider.token("ana")
            assert header(newer)["kid"] == "second"
            assert server.status(newer) == 200
            tokens.append(newer)
            until("answers to both", lambda: len(of(newer, seen)) > 4)
            assert {each.status for each in seen} == {200}
            # Both are taken back at once: known until the first token of the key after them.
            provider.restart(third)
            newest = provider.token("ana", ES256)
            assert header(newest)["kid"] == "third"
            before = len(seen)
            until("answers while nobody shows the new key", lambda: len(seen) > before + 4)
            assert {each.status for each in seen} == {200}
            shown = server.timed_status(newest)
            assert shown.status == 200
            tokens.append(newest)
            until("answers to all", lambda: len(of(newest, seen)) > 4)
        assert {each.status for each in of(newest, seen)} == {200}
        for gone in (old, newer):
            answers = of(gone, seen)
            assert {each.status for each in answers} == {200, 401}
            assert all(each.status == 200 for each in answers if each.received < shown.sent)
            assert all(each.status == 401 for each in answers if each.sent > shown.received)


def test_a_withdrawn_key_is_refused_without_a_token_of_another_key(
    tmp_path: Path, provider: RealProvider
) -> None:
    # Keys are refreshed after half that time.
    with AccountantServer(tmp_path / "server", provider, oidc_outage_seconds=8) as server:
        token = provider.token("ana")
        assert server.status(token) == 200
        provider.restart(Key.rsa("second"))
        until("the end of the old key", lambda: server.status(token) == 401)
        assert server.status(token) == 401
        assert server.status(provider.token("ana")) == 200
