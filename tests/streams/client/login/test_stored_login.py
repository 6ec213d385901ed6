"""A login is stored for its user alone, and found by exactly the URL that it was made for."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from streams.address import AddressInvalid
from streams.client.http.bearer import bearer_for
from streams.client.login.stored_login import (
    delete_login,
    find_login,
    login_file,
    server_url,
    store_login,
    stored_urls,
)
from streams.errors import Refused
from streams.settings import Settings
from tests.streams.client.login.stored import make_login

URL = "https://ledger.example"


@pytest.mark.parametrize(
    ("url", "plain"),
    [
        ("https://ledger.example", URL),
        ("HTTPS://Ledger.Example:443/".replace("HTTPS", "https"), URL),
        ("https://ledger.example:8443", "https://ledger.example:8443"),
        ("https://ledger.example/lab/", "https://ledger.example/lab"),
        ("http://127.0.0.1:80", "http://127.0.0.1"),
        ("http://[::1]:8000", "http://[::1]:8000"),
        ("https://b\u00fccher.example", "https://xn--bcher-kva.example"),
    ],
)
def test_a_url_has_one_form(url: str, plain: str) -> None:
    assert server_url(url) == plain
    assert server_url(plain) == plain


@pytest.mark.parametrize(
    "url",
    [
        "http://ledger.example",
        "http://127.0.0.1.example",
        "sqlite:///ledger.db",
        "kafka://127.0.0.1:9092",
        "https://ana@ledger.example",
        "https://ledger.example?x",
    ],
)
def test_no_login_is_made_for_another_address(url: str) -> None:
    with pytest.raises(AddressInvalid):
        server_url(url)


@pytest.mark.parametrize(
    "other",
    [
        "https://ledger.example:8443",
        "http://ledger.example",
        "https://ledger.example.org",
        "https://a.ledger.example",
        "https://ledger.example/lab",
        "https://ledger.exampl",
    ],
)
def test_a_login_is_used_for_its_own_url_alone(logins: Path, other: str) -> None:
    make_login(URL)
    found = bearer_for(f"{URL}:443/", Settings())
    assert found is not None
    assert found.source == "accountant login (https://login.example)"
    assert bearer_for(other, Settings()) is None


def test_a_renamed_login_is_refused_for_its_new_url(logins: Path) -> None:
    make_login(URL)
    other = "https://other.example"
    login_file(URL).rename(login_file(other))
    with pytest.raises(Refused, match=f"is not the login of {other}"):
        bearer_for(other, Settings())


def test_files_and_their_directory_are_private_whatever_the_umask(logins: Path) -> None:
    before = os.umask(0)
    try:
        make_login(URL)
    finally:
        os.umask(before)
    assert stat.S_IMODE(login_file(URL).stat().st_mode) == 0o600
    assert stat.S_IMODE(logins.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644])
def test_a_login_that_others_may_read_is_refused(logins: Path, mode: int) -> None:
    make_login(URL)
    login_file(URL).chmod(mode)
    with pytest.raises(Refused, match=r"is accessible to other users. Run `chmod 600 "):
        bearer_for(URL, Settings())


def test_a_directory_that_others_may_use_is_refused(logins: Path) -> None:
    login = make_login(URL)
    logins.chmod(0o755)
    for use in (lambda: find_login(URL), lambda: store_login(login)):
        with pytest.raises(Refused, match=f"Run `chmod 700 {logins}`"):
            use()


def test_a_link_in_place_of_a_login_is_refused_and_replaced(logins: Path, tmp_path: Path) -> None:
    login = make_login(URL)
    file, elsewhere = login_file(URL), tmp_path / "elsewhere"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    with pytest.raises(Refused, match="is a symbolic link"):
        find_login(URL)
    before = elsewhere.read_bytes()
    store_login(login)
    assert not file.is_symlink()
    assert elsewhere.read_bytes() == before


def test_a_login_of_another_user_is_refused(logins: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_login(URL)
    another = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: another)
    with pytest.raises(Refused, match="belongs to another user"):
        find_login(URL)


@pytest.mark.parametrize("content", [b"", b"{}", b"[", b"\xff", b"x" * 200_000])
def test_a_damaged_login_is_refused_without_its_content(logins: Path, content: bytes) -> None:
    make_login(URL)
    login_file(URL).write_bytes(content)
    with pytest.raises(Refused, match=f"Remove it, and run `accountant login {URL}` again"):
        find_login(URL)


def test_a_deleted_login_is_gone_and_the_others_stay(logins: Path) -> None:
    assert stored_urls() == []
    make_login(URL)
    make_login(f"{URL}/lab")
    assert stored_urls() == [URL, f"{URL}/lab"]
    assert delete_login(URL)
    assert not delete_login(URL)
    assert find_login(URL) is None
    assert stored_urls() == [f"{URL}/lab"]


def test_no_text_of_a_login_contains_its_tokens(logins: Path) -> None:
    login = make_login(URL, refresh_token="the refresh token")
    texts = repr(login), str(login), str(login.__rich_repr__()), repr(bearer_for(URL, Settings()))
    for text in texts:
        assert "token" not in text


def test_nobody_without_a_home_directory_has_a_login(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError

    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(Path, "home", no_home)
    assert bearer_for(URL, Settings()) is None
    with pytest.raises(Refused, match="set XDG_STATE_HOME"):
        login_file(URL)
