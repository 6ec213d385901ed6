"""From an address to a service: in process, or over HTTP."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from accountant.advice.preview import Preview
from accountant.records import Decision, Source
from accountant.records.members import Member
from accountant.records.previews import PreviewRequest
from accountant.views.datasets import Alert, DatasetView
from accountant.views.heads import Head
from accountant.views.limit_views import AnalystBudget, LevelView
from accountant.views.usage import UsageView
from accountant.views.why import Why
from streams.client import one_a_process
from streams.client.http import HttpService
from streams.client.http.bearer import bearer_for
from streams.clock import Clock
from streams.embedded.file_lock import FileLock, Held
from streams.embedded.service import EmbeddedService
from streams.errors import Refused
from streams.service import Answer, Readiness, Service
from streams.settings import Settings, load_client

_HELD_LOOK_S: Final = 0.05


class NoSuchLedger(Refused):
    """There is no file at this path: a mistyped one must not become a second budget."""


def check_there(path: Path) -> None:
    """Raise unless there is a file that could be a ledger's.

    Raises: NoSuchLedger: nothing is there. Refused: it is a directory.
    """
    if path.is_dir():
        raise Refused(f"{path} is a directory, not a ledger's file")
    if not path.exists():
        raise NoSuchLedger(_missing(path))


def _missing(path: Path) -> str:
    with contextlib.suppress(OSError, ValueError):
        path = path.relative_to(Path.cwd())  # as it was typed, most often
    return f"no such ledger: {path}; open a dataset first, or check the path"


class AbsentLedger:
    """The `Service` of a file that nobody has made: each call raises NoSuchLedger."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def _missing(self) -> NoSuchLedger:
        return NoSuchLedger(_missing(self._path))

    async def submit(self, source: Source, body: bytes, *, wait: float) -> Answer:
        raise self._missing

    async def find(self, dataset: str, who: str, request_id: str) -> bytes | None:
        raise self._missing

    async def datasets(self) -> list[DatasetView]:
        raise self._missing

    async def dataset(self, name: str) -> DatasetView | None:
        raise self._missing

    async def preview(self, dataset: str, asked: PreviewRequest) -> Preview | None:
        raise self._missing

    async def levels(self, dataset: str) -> list[LevelView]:
        raise self._missing

    async def budget_for(self, dataset: str, analyst: str) -> AnalystBudget | None:
        raise self._missing

    async def usage(self, dataset: str) -> list[UsageView]:
        raise self._missing

    async def why(self, dataset: str, *, analyst: str | None = None) -> Why | None:
        raise self._missing

    async def decisions(self, dataset: str, *, after: int, most: int) -> list[bytes]:
        raise self._missing

    async def members(self, dataset: str) -> list[Member]:
        raise self._missing

    async def heads(self) -> list[Head]:
        raise self._missing

    def ordered_before(self) -> int | None:
        raise self._missing

    def events(self) -> AsyncIterator[Decision]:
        raise self._missing

    def alerts(self) -> AsyncIterator[Alert]:
        raise self._missing

    def readiness(self) -> Readiness:
        return Readiness(ready=False, reasons=[str(self._missing)])

    async def close(self) -> None:
        """There is nothing to let go of."""


def connect_here(
    settings: Settings, clock: Clock | None, *, make: bool = False, wait: float = 0.0
) -> EmbeddedService | HttpService | AbsentLedger | None:
    """Return the service of a file or a gateway, None where the ledger is on Kafka.

    A file that another process holds is reached through the address that it published; where
    there is none, such as beside another `accountant ask`, it is free again in a moment.

    Args:
        make: make the file if it is not there, instead of answering with `AbsentLedger`.
        wait: seconds to wait for a file that another process holds.
    Raises: Refused, LogDamaged: as `EmbeddedService.open`.
    """
    until = time.monotonic() + wait
    while True:
        try:
            return _connect_once(settings, clock, make=make)
        except Held:
            if time.monotonic() >= until:
                raise
        time.sleep(_HELD_LOOK_S)


def _connect_once(
    settings: Settings, clock: Clock | None, *, make: bool
) -> EmbeddedService | HttpService | AbsentLedger | None:
    kind, target = settings.ledger
    if kind == "http":
        return HttpService(target, bearer_for(target, settings))
    if kind == "kafka":
        return None
    path = Path(target)
    here = one_a_process.found(path, settings, clock)
    if here is not None:
        return here
    owner = FileLock(path).owner()
    if owner is not None and owner.address is not None:
        return HttpService(owner.address, bearer_for(owner.address, settings))
    if owner is None and not make and not path.exists():
        return AbsentLedger(path)
    return one_a_process.opened(path, settings, clock)


async def let_go(service: Service) -> None:
    """Close a service, unless another client of this process has the same file open."""
    if not isinstance(service, EmbeddedService) or one_a_process.is_last(service):
        await service.close()


def settings_of(url: str | None, token: str | None, settings: Settings | None) -> Settings:
    """Return the settings of a client: those given, else those of the environment.

    A token that is given goes before one that any settings have.
    Raises: Refused: a value breaks its rule.
    """
    if settings is None:
        settings = load_client(url=url, token=token)
    if token is not None:
        update = {"token": load_client(token=token).token, "token_file": None}
        settings = settings.model_copy(update=update)
    return settled(settings)


def settled(settings: Settings) -> Settings:
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
