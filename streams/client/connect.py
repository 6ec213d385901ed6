"""From an address to a service: in process, or over HTTP."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Final

from streams.client import shared_files
from streams.client.http.bearer import bearer_for
from streams.client.http.service import HttpService
from streams.clock import Clock, steady
from streams.embedded.file_lock import FileLock, Held
from streams.embedded.read_only import FileReader
from streams.embedded.service import EmbeddedService
from streams.errors import Refused
from streams.index import index_path
from streams.settings import Settings, load_client

LOCK_POLL_S: Final = 0.05


class NoSuchLedger(Refused):
    """There is no file at this path: a mistyped one must not become a second budget."""


def check_exists(path: Path) -> None:
    """Raise unless there is a file that could be a ledger's.

    Raises: NoSuchLedger: nothing is there. Refused: it is a directory.
    """
    if path.is_dir():
        raise Refused(f"{path} is a directory, not a ledger's file")
    if not path.exists():
        raise NoSuchLedger(_missing_message(path))


def _missing_message(path: Path) -> str:
    with contextlib.suppress(OSError, ValueError):
        path = path.relative_to(Path.cwd())  # as it was typed, most often
    return f"no such ledger: {path}; open a dataset first, or check the path"


def connect_file_or_server(
    settings: Settings,
    clock: Clock,
    *,
    create: bool = False,
    wait: float = 0.0,
    read_only: bool = False,
) -> EmbeddedService | FileReader | HttpService | None:
    """Return the service of a file or a gateway, None where the ledger is on Kafka.

    A file that another process holds is reached through the address that it published; where
    there is none, such as beside another `accountant ask`, it is free again in a moment.

    Args:
        make: make the file if it is not there.
        wait: seconds to wait for a file that another process holds.
        read_only: read a file without a lock, whoever holds it.
    Raises: NoSuchLedger: there is no file. Refused, LogDamaged: as `EmbeddedService.open`.
    """
    kind, target = settings.ledger
    if read_only and kind == "sqlite":
        return _open_reader(Path(target), settings, clock)
    deadline = steady() + wait
    while True:
        try:
            return _connect_once(settings, clock, create=create)
        except Held:
            if steady() >= deadline:
                raise
        time.sleep(LOCK_POLL_S)


def _open_reader(path: Path, settings: Settings, clock: Clock) -> FileReader:
    """Return a reader of a file, which takes no lock.

    Raises: NoSuchLedger: there is no file. Refused: it is a directory.
    """
    check_exists(path)
    return FileReader(path, clock, index=index_path(path, settings))


def _connect_once(
    settings: Settings, clock: Clock, *, create: bool
) -> EmbeddedService | HttpService | None:
    kind, target = settings.ledger
    if kind == "http":
        return HttpService(target, bearer_for(target, settings))
    if kind == "kafka":
        return None
    path = Path(target)
    service = shared_files.get_open(path, settings, clock)
    if service is not None:
        return service
    owner = FileLock(path).owner()
    if owner is not None and owner.address is not None:
        return HttpService(owner.address, bearer_for(owner.address, settings))
    if owner is None and not create and not path.exists():
        raise NoSuchLedger(_missing_message(path))
    return shared_files.open_shared(path, settings, clock)


def client_settings(url: str | None, token: str | None, settings: Settings | None) -> Settings:
    """Return the settings of a client: those given, else those of the environment.

    A token that is given goes before one that any settings have.
    Raises: Refused: a value breaks its rule.
    """
    if settings is None:
        settings = load_client(url=url, token=token)
    if token is not None:
        update = {"token": load_client(token=token).token, "token_file": None}
        settings = settings.model_copy(update=update)
    return with_absolute_path(settings)


def with_absolute_path(settings: Settings) -> Settings:
    """Return settings whose path, if it is a relative one, is that of the present directory.

    Raises: Refused: there is no present directory any more.
    """
    kind, target = settings.ledger
    if kind != "sqlite" or target.startswith("/"):
        return settings
    try:
        path = Path.cwd() / target
    except OSError as error:
        raise Refused(f"{target} is a path in the working directory, which is gone") from error
    return settings.model_copy(update={"url": f"sqlite:///{path}"})
