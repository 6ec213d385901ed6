"""The metrics token opens GET /metrics alone, whatever becomes of other tokens."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from streams.auth.metrics_token import MetricsToken, read_metrics_token
from streams.errors import Refused
from streams.pages import PAGES
from tests.streams.auth.provider import LocalProvider
from tests.streams.auth.test_every_route import addresses
from tests.streams.auth.token_server import TokenServer
from tests.streams.waiting import eventually

TOKEN = "0123456789abcdef" * 4
OTHER = "fedcba9876543210" * 4


def write(path: Path, text: str, mode: int = 0o600) -> Path:
    """Replace a file as a whole, as a secret's volume does."""
    partial = path.with_name(f".{path.name}.new")
    partial.touch(mode)
    partial.chmod(mode)
    partial.write_text(text)
    return partial.rename(path)


@pytest.fixture
def scraped(tmp_path: Path) -> Iterator[TokenServer]:
    file = write(tmp_path / "metrics.token", f"{TOKEN}\n")
    with TokenServer(tmp_path, pages=PAGES, metrics_token_file=file) as server:
        yield server


def away(server: TokenServer, method: str) -> float:
    """Return what the probe says of a method of authentication."""
    text = server.get("/healthz/metrics", None).text
    line = f'privacy_probe_authentication_away{{method="{method}"}} '
    (value,) = [each.removeprefix(line) for each in text.splitlines() if each.startswith(line)]
    return float(value)


def test_the_metrics_token_opens_get_metrics_alone(scraped: TokenServer) -> None:
    answer = scraped.get("/metrics", TOKEN)
    assert answer.status_code == 200
    assert "privacy_partition_ready" in answer.text
    before = scraped.last_sequence()
    for method, path in addresses(scraped):
        if (method, path) in {("GET", "/metrics"), ("HEAD", "/metrics")}:
            continue
        shown = {"Authorization": f"Bearer {TOKEN}"}
        refused = scraped.http.request(method, path, headers=shown)
        assert refused.status_code == 401, (method, path)
    for path in ("/metrics/", "//metrics", "/%6Detrics/", "/metrics/x"):
        assert scraped.status(TOKEN, path) == 401
    assert scraped.get("/readyz", TOKEN).json() == {"ready": True}
    assert scraped.last_sequence() == before


def test_other_callers_of_metrics_are_checked_as_before(scraped: TokenServer) -> None:
    assert scraped.status(scraped.administrator, "/metrics") == 200
    assert scraped.status(scraped.make("local:ana"), "/metrics") == 403
    for wrong in (None, OTHER, TOKEN[:-1], f"{TOKEN}0", b"Basic " + TOKEN.encode()):
        assert scraped.status(wrong, "/metrics") == 401
    both = [("Authorization", f"Bearer {TOKEN}"), ("Authorization", f"Bearer {OTHER}")]
    assert scraped.http.get("/metrics", headers=both).status_code == 401


def test_the_metrics_token_works_without_the_token_file(scraped: TokenServer) -> None:
    assert away(scraped, "tokens") == 0
    scraped.tokens.unlink()
    assert scraped.status(TOKEN, "/metrics") == 200
    assert scraped.status(scraped.administrator, "/metrics") == 503
    assert scraped.status(OTHER, "/metrics") == 503
    assert away(scraped, "tokens") == 1


def test_the_metrics_token_works_while_the_provider_is_away(
    tmp_path: Path, provider: LocalProvider
) -> None:
    file = write(tmp_path / "metrics.token", TOKEN)
    more = {"metrics_token_file": file, "metrics_readers": "prometheus", "oidc_outage_seconds": 0}
    provider.broken = "error"
    with TokenServer(tmp_path, provider=provider, **more) as server:
        eventually(lambda: away(server, "provider") == 1)
        assert server.status(TOKEN, "/metrics") == 200
        assert server.status(provider.token("prometheus"), "/metrics") == 503
        assert away(server, "tokens") == 0
        provider.broken = None
        eventually(lambda: away(server, "provider") == 0)
        assert server.status(provider.token("prometheus"), "/metrics") == 200


def test_without_a_metrics_token_metrics_answers_503_while_tokens_cannot_be_read(
    own: TokenServer,
) -> None:
    own.tokens.unlink()
    assert own.status(own.administrator, "/metrics") == 503
    assert own.status(TOKEN, "/metrics") == 503
    assert own.status(None, "/healthz/metrics") == 200
    assert away(own, "tokens") == 1
    assert "privacy_probe_ready 0.0" in own.get("/healthz/metrics", None).text


def test_a_replaced_metrics_token_stops_at_once(scraped: TokenServer) -> None:
    file = scraped.settings.metrics_token_file
    assert file is not None
    assert scraped.status(TOKEN, "/metrics") == 200
    write(file, OTHER)
    assert scraped.status(TOKEN, "/metrics") == 401
    assert scraped.status(OTHER, "/metrics") == 200


def _removed(path: Path) -> None:
    path.unlink()


def _open_to_others(path: Path) -> None:
    path.chmod(0o640)


def _empty(path: Path) -> None:
    write(path, "")


def _a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def _a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir(0o700)


@pytest.mark.parametrize(
    "spoil",
    [_removed, _open_to_others, _empty, _a_pipe, _a_directory],
    ids=lambda each: each.__name__,
)
def test_the_metrics_token_is_not_believed_while_its_file_is_unusable(
    scraped: TokenServer, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    file = scraped.settings.metrics_token_file
    assert file is not None
    assert scraped.status(TOKEN, "/metrics") == 200
    spoil(file)
    answer = scraped.get("/metrics", TOKEN)
    assert answer.status_code == 503
    assert str(tmp_path) not in answer.text
    assert away(scraped, "metrics") == 1
    assert scraped.status(None, "/metrics") == 401
    assert scraped.status(scraped.administrator, "/metrics") == 200
    assert scraped.status(scraped.administrator) == 200


def test_a_removed_token_is_not_believed_while_the_file_cannot_be_read(own: TokenServer) -> None:
    without = own.tokens.read_text()
    removed = own.make("local:ana")
    assert own.status(removed) == 200
    write(own.tokens, without, 0o644)  # removed, in a file that must not be read
    for path in ("/me", "/metrics", "/datasets"):
        assert own.status(removed, path) == 503
        assert own.status(own.administrator, path) == 503


def test_only_a_private_token_of_its_own_is_accepted(tmp_path: Path) -> None:
    file = tmp_path / "metrics.token"
    with pytest.raises(Refused, match="openssl rand"):
        read_metrics_token(file)
    for text, rule in (
        ("acct_" + "a" * 43, "valid for other routes too"),
        ("short", "32 to 512"),
        ("", "32 to 512"),
        (f"{TOKEN} {OTHER}", "32 to 512"),
        (f"{TOKEN}\n{OTHER}", "32 to 512"),
        ("eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbmEifQ.c2lnbmF0dXJl", "32 to 512"),
        ("a" * 2_000, "32 to 512"),
    ):
        write(file, text)
        with pytest.raises(Refused, match=rule) as refused:
            read_metrics_token(file)
        assert not text or text not in str(refused.value)
    write(file, TOKEN, 0o640)
    with pytest.raises(Refused, match="chmod 600"):
        read_metrics_token(file)
    write(file, f" {TOKEN}\n")
    assert read_metrics_token(file) == TOKEN.encode()


async def test_an_unusable_file_is_logged_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = MetricsToken(tmp_path / "metrics.token")
    for _ in range(3):
        assert await token.matches(TOKEN) is None
    write(tmp_path / "metrics.token", TOKEN)
    assert await token.matches(TOKEN) is True
    assert await token.matches(OTHER) is False
    assert capsys.readouterr().err.count("metrics_token_unreadable") <= 1
