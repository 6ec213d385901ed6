"""Root runs commands for a service: the service can read what they made."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from streams import Accountant
from streams.auth.token_file import create
from streams.embedded.ledger_file import connect_writer
from streams.errors import Refused
from streams.evidence.keys import SigningKey
from streams.files.private_files import lock_against_writers, read_private
from streams.sources.confirmed_facts import ConfirmedFacts
from streams.sources.contribution_key import load_contribution_key
from streams.sources.source_facts import SourceFacts

SERVICE: Final = 65_534
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another's files")


@pytest.fixture
def directory() -> Iterator[Path]:
    """Yield a directory of a service, which may pass those above it, unlike those of pytest."""
    with TemporaryDirectory() as name:
        os.chown(name, SERVICE, SERVICE)
        yield Path(name)


@contextmanager
def as_the_service(directory: Path) -> Iterator[None]:
    with chdir(directory):
        os.seteuid(SERVICE)
        try:
            yield
        finally:
            os.seteuid(0)


MAKE: Final[dict[str, Callable[[Path], object]]] = {
    "tokens.json": lambda path: create(path, "ana", now=1_000),
    "sources.key": load_contribution_key,
    "sources.confirmed": lambda path: ConfirmedFacts(path).confirm(
        "census", SourceFacts(columns=())
    ),
    "key": lambda path: SigningKey.create(path, "accountant", of_service=True),
}


@pytest.mark.parametrize("name", MAKE)
def test_a_new_file_of_root_belongs_to_the_owner_of_its_directory(
    name: str, directory: Path
) -> None:
    MAKE[name](directory / name)
    every = list(directory.iterdir())
    assert {each.stat().st_uid for each in every} == {SERVICE}
    with as_the_service(directory):
        assert read_private(Path(name), 100, what="a file", then="replace it").content


def test_a_key_of_an_auditor_stays_the_file_of_whoever_made_it(directory: Path) -> None:
    SigningKey.create(directory / "auditor.key", "auditor")
    assert (directory / "auditor.key").stat().st_uid == 0


def test_an_existing_lock_file_keeps_its_owner(directory: Path) -> None:
    """A user could have linked a file of root there."""
    (directory / "secret").write_bytes(b"")
    (directory / "tokens.json.lock").hardlink_to(directory / "secret")
    with lock_against_writers(directory / "tokens.json"):
        pass
    assert (directory / "secret").stat().st_uid == 0
    (directory / "other.lock").symlink_to(directory / "missing")
    with (
        pytest.raises(Refused, match="cannot be changed"),
        lock_against_writers(directory / "other"),
    ):
        raise AssertionError("the block does not run")
    assert not (directory / "missing").exists()


def test_a_file_that_another_user_made_names_owner_and_command(directory: Path) -> None:
    (directory / "secret").touch(mode=0o600)
    words = r"secret cannot be read: it belongs to root, .* runs as (\w+). Run `chown \1 secret`$"
    with as_the_service(directory), pytest.raises(Refused, match=words):
        read_private(Path("secret"), 100, what="a file", then="replace it")


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_a_restored_ledger_of_root_names_owner_and_command(mode: int, directory: Path) -> None:
    file = directory / "copy.db"
    with Accountant(f"sqlite:///{file}", analyst="ana") as ledger:
        ledger.as_owner("registrar").open("census", {"epsilon": "1", "delta": "1e-6"})
    file.chmod(mode)
    words = r"copy.db cannot be opened: it belongs to root, .* runs as (\w+). Run `chown \1 "
    with as_the_service(directory), pytest.raises(Refused, match=words):
        connect_writer(file)
