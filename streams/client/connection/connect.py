"""Connects a client to its ledger: a file in this process, or a server over HTTP."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streams.client.connection import shared_files
from streams.clock import Clock, steady
from streams.embedded.file_lock import FileInUse, FileLock
from streams.embedded.file_reader import FileReader
from streams.embedded.service import EmbeddedService
from streams.errors import Refused
from streams.index import index_path
from streams.settings import Settings, load_client

if TYPE_CHECKING:
    from streams.client.http.service import HttpService

LOCK_POLL_S: Final = 0.05


class NoSuchLedger(Refused):
    """The ledger's file does not exist. A mistyped path must not create a second budget."""


def check_exists(path: Path) -> None:
    """Check that a path is a file.

    Raises: NoSuchLedger: it does not exist. Refused: it is a directory.
    """
    if path.is_dir():
        raise Refused(f"{path} is a directory. Name the ledger's file in it")
    if not path.exists():
        raise NoSuchLedger(_missing_message(path))


def _missing_message(path: Path) -> str:
    with contextlib.suppress(OSError, ValueError):
        path = path.relative_to(Path.cwd())  # usually as it was typed
    return f"no such ledger: {path}. Check the path, or open a dataset to create the ledger"


def connect_file_or_server(
    settings: Settings,
    clock: Clock,
    *,
    create: bool = False,
    replace_ledger: bool = False,
    wait: float = 0.0,
    read_only: bool = False,
) -> EmbeddedService | FileReader | HttpService | None:
    """Return the service of a file or a server, None where the ledger is on Kafka.

    A file that another process has locked is reached through the address which that process
    has published. A process without an address, such as another `accountant ask`, soon ends.

    Args:
        create: create the file if it does not exist.
        replace_ledger: as of `EmbeddedService.open`.
        wait: seconds to wait for a locked file.
        read_only: read a file without a lock, even while another process has it open.
    Raises: NoSuchLedger: there is no file. Refused, LogDamaged: see `EmbeddedService.open`.
    """
    kind, target = settings.ledger
    if read_only and kind == "sqlite":
        return _open_reader(Path(target), settings, clock)
    deadline = steady() + wait
    while True:
        try:
            return _connect_once(settings, clock, create=create, replace_ledger=replace_ledger)
        except FileInUse:
            if steady() >= deadline:
                raise
        except PermissionError as error:
            path = error.filename or target
            why = f"{path} cannot be opened: {error.strerror}. Check its owner and permissions"
            raise Refused(why) from error
        time.sleep(LOCK_POLL_S)


def _open_reader(path: Path, settings: Settings, clock: Clock) -> FileReader:
    """Open a file to read it without a lock.

    Raises: NoSuchLedger: it does not exist. Refused: it is a directory.
    """
    check_exists(path)
    return FileReader(path, clock, index=index_path(path, settings))


def _connect_once(
    settings: Settings, clock: Clock, *, create: bool, replace_ledger: bool
) -> EmbeddedService | HttpService | None:
    kind, target = settings.ledger
    if kind == "http":
        return _server_at(target, settings)
    if kind == "kafka":
        return None
    path = Path(target)
    service = shared_files.get_open(path, settings, clock)
    if service is not None:
        return service
    owner = FileLock(path).owner()
    if owner is not None and owner.address is not None:
        return _server_at(owner.address, settings)
    if owner is None and not create and not path.exists():
        raise NoSuchLedger(_missing_message(path))
    return shared_files.open_shared(path, settings, clock, replace_ledger=replace_ledger)


def _server_at(address: str, settings: Settings) -> HttpService:
    # Imported late: httpx takes longer than to open a file.
    from streams.client.http.bearer import bearer_for
    from streams.client.http.service import HttpService

    return HttpService(address, bearer_for(address, settings))


def client_settings(url: str | None, token: str | None, settings: Settings | None) -> Settings:
    """Return the settings of a client: the arguments, else the environment.

    A token argument overrides the token in any settings.

    Raises: Refused: a value breaks its rule.
    """
    if settings is None:
        settings = load_client(url=url, token=token)
    if token is not None:
        update = {"token": load_client(token=token).token, "token_file": None}
        settings = settings.model_copy(update=update)
    return with_absolute_path(settings)


def with_absolute_path(settings: Settings) -> Settings:
    """Return settings with an absolute path: a program may change its directory later.

    Raises: Refused: the working directory does not exist.
    """
    kind, target = settings.ledger
    if kind != "sqlite" or target.startswith("/"):
        return settings
    try:
        path = Path.cwd() / target
    except OSError as error:
        raise Refused(
            f"the working directory does not exist any more, and {target} is a path in it. "
            "Change to another directory, or use an absolute path"
        ) from error
    return settings.model_copy(update={"url": f"sqlite:///{path}"})
