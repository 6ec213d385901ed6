"""Each file that a setting names is refused if others could change it, a secret if they read it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Final

import pytest

from streams.audit.checkpoints import read_evidence
from streams.auth.metrics_token import read_metrics_token
from streams.auth.sign_in_client import sign_in_client
from streams.auth.start import tls_of
from streams.auth.token_file import read
from streams.cli.reading.member_file import read_members
from streams.client.http.bearer import Bearer, tls_verification
from streams.errors import LedgerFault, Refused
from streams.evidence.keys import SigningKey
from streams.files.private_files import check_private, check_trusted
from streams.kafka.wire.security import security_of
from streams.settings import Settings
from streams.sources.confirmed_facts import ConfirmedFacts
from streams.sources.contribution_key import load_contribution_key
from streams.sources.source_settings import read_source_settings
from tests.every_case import every_case
from tests.streams.auth.certificates import certificate

_OIDC: Final = {
    "oidc_issuer": "https://provider.example.org",
    "oidc_audience": "x",
    "oidc_client_id": "x",
    "oidc_redirect_url": "http://127.0.0.1/sign-in/callback",
}
_SASL: Final = {"kafka_security_protocol": "SASL_SSL", "kafka_username": "w"}

Reader = Callable[[Path], object]


def _settings(**fields: object) -> Settings:
    return Settings.model_validate(fields)


_SECRETS: Final[dict[str, Reader]] = {
    "tokens": read,
    "oidc_client_secret_file": lambda path: sign_in_client(
        _settings(**_OIDC, oidc_client_secret_file=path)
    ),
    "metrics_token_file": read_metrics_token,
    "tls_key": lambda path: tls_of(
        _settings(tls_certificate=path.with_name("server.pem"), tls_key=path)
    ),
    "token_file": lambda path: Bearer(None, path).header,
    "kafka_password_file": lambda path: security_of(_settings(**_SASL, kafka_password_file=path)),
    "kafka_key": lambda path: security_of(
        _settings(
            kafka_security_protocol="SSL",
            kafka_certificate=path.with_name("server.pem"),
            kafka_key=path,
        )
    ),
    "data_sources_key": load_contribution_key,
    "data_sources_confirmed": lambda path: ConfirmedFacts(path).get("census"),
    "checkpoint_key": SigningKey.load,
}
_TRUSTED: Final[dict[str, Reader]] = {
    "tls_certificate": lambda path: tls_of(
        _settings(tls_certificate=path, tls_key=path.with_name("server.key"))
    ),
    "kafka_ca": lambda path: security_of(_settings(kafka_security_protocol="SSL", kafka_ca=path)),
    "kafka_certificate": lambda path: security_of(
        _settings(
            kafka_security_protocol="SSL",
            kafka_certificate=path,
            kafka_key=path.with_name("server.key"),
        )
    ),
    "data_sources": read_source_settings,
    "SSL_CERT_FILE": lambda _: tls_verification("https://example.org"),
    "FILE of member sync": read_members,
    "--key of audit": lambda path: read_evidence("/nowhere", [str(path)], None),
}
_OPTIONS: Final = {"SSL_CERT_FILE", "FILE of member sync", "--key of audit"}
_WRITTEN: Final = {"index", "curator_store", "checkpoints"}
"""What a server writes itself: `tests/streams/auth/test_files.py`, `test_untrusted_answers.py`."""


def test_every_setting_that_names_a_file_is_in_one_of_these_tables() -> None:
    named = {
        name for name, field in Settings.model_fields.items() if "Path" in str(field.annotation)
    }
    assert named == (_SECRETS.keys() | _TRUSTED.keys() | _WRITTEN) - _OPTIONS


def _use(read_it: Reader, path: Path) -> str:
    """Return why a file is refused; whatever else is wrong with it is not asked here."""
    try:
        read_it(path)
    except (Refused, OSError, LedgerFault, ValueError) as error:
        return str(error)
    return ""


def _file(directory: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a file of a setting; with its pair, if it is one of TLS."""
    files = certificate(directory)
    path = {
        "tls_key": files.key,
        "kafka_key": files.key,
        "tls_certificate": files.certificate,
        "kafka_certificate": files.certificate,
        "kafka_ca": files.certificate,
        "SSL_CERT_FILE": files.certificate,
    }.get(name, directory / "named")
    if not path.exists():
        path.write_text("{}")
    monkeypatch.setenv("SSL_CERT_FILE", str(files.certificate))
    return path


@every_case("name", [*_SECRETS, *_TRUSTED])
def test_a_file_of_a_setting_that_others_may_change_is_refused(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_it = (_SECRETS | _TRUSTED)[name]
    path = _file(tmp_path, name, monkeypatch)
    remedy = f"chmod 600 {path}" if name in _SECRETS else f"chmod go-w {path}"
    for mode in (0o666, 0o620, 0o602, *([0o644, 0o640] if name in _SECRETS else [])):
        path.chmod(mode)
        assert remedy in _use(read_it, path), f"{mode:o}"
    path.chmod(0o600 if name in _SECRETS else 0o644)
    link = tmp_path / "link"
    link.unlink(missing_ok=True)
    link.symlink_to(path.name)
    assert "other users" not in _use(read_it, path)
    path.unlink()


@every_case(
    "mode,secret,accepted",
    [
        (0o644, False, True),  # a ConfigMap
        (0o440, True, True),  # a Secret with defaultMode and fsGroup, or a key of ssl-cert's
        (0o644, True, True),  # a Secret as Kubernetes mounts it by default
        (0o664, False, False),
        (0o660, True, False),
        (0o646, True, False),
    ],
)
def test_root_decides_who_reads_its_files_and_never_that_others_change_them(
    tmp_path: Path,
    mode: int,
    secret: bool,
    accepted: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    volume = tmp_path / "..2026"
    volume.mkdir(exist_ok=True)
    file = tmp_path / "mounted"
    file.unlink(missing_ok=True)
    (volume / "mounted").write_text("x")
    (volume / "mounted").chmod(mode)
    file.symlink_to(volume / "mounted")
    another = os.geteuid() + 1
    caplog.clear()
    with monkeypatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: another)
        if accepted:
            check_trusted(file, secret=secret, then="replace it")
        else:
            with pytest.raises(Refused, match="other users"):
                check_trusted(file, secret=secret, then="replace it")
    if secret and accepted:  # Every user of a machine could read it: one line of the log says so.
        assert ("secret_open_to_others" in caplog.text) == bool(mode & 0o004)


def test_a_file_of_another_user_than_root_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.touch(0o600)
    mine = list(file.stat())
    mine[4] = os.geteuid() + 1  # the owner
    monkeypatch.setattr(os, "geteuid", lambda: mine[4] + 1)
    with pytest.raises(Refused, match="belongs to another user, who can change it"):
        check_private(file, os.stat_result(mine), "replace it")


def test_a_read_only_mount_has_owners_of_its_own_and_modes_that_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.touch(0o644)
    monkeypatch.setattr(os, "fstatvfs", lambda _: SimpleNamespace(f_flag=os.ST_RDONLY))
    own = os.geteuid()
    for user in (own, own + 1):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        file.chmod(0o644)
        check_trusted(file, secret=False, then="review it")
        file.chmod(0o664)
        with pytest.raises(Refused, match="other users"):
            check_trusted(file, secret=False, then="review it")
