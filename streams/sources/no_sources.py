"""A server that could run questions and has no data: it takes none, since nobody would run them."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET

from streams.service.ledger_service import LedgerService
from streams.settings import PREFIX
from streams.telemetry.logs import get_logger

_log = get_logger(__name__)
_DO: Final = (
    f"set {PREFIX}DATA_SOURCES to the file that says where the data are, and start `accountant "
    "serve` again"
)


class NoSources:
    """In place of the file of sources, for a ledger in a file that is served without one.

    Args:
        is_asked: there is a dataset with a schema, or there are answers: somebody may ask.
    """

    def __init__(self, *, is_asked: bool) -> None:
        self._is_asked = False
        if is_asked:
            self._warn()

    def notes(self) -> list[str]:
        """Return what an operator should know, for `/readyz`."""
        if not self._is_asked:
            return []
        return [f"questions are refused before they are charged, since nobody runs them: {_DO}"]

    def refuse(self) -> str:
        """Return the words of a refusal, and have the note say that somebody asks."""
        if not self._is_asked:
            self._warn()
        return (
            "nothing was asked, and nothing is charged: this server reads no data, so nobody would "
            f"run the question. Whoever runs the server: {_DO}"
        )

    def _warn(self) -> None:
        self._is_asked = True
        _log.warning("questions_refused", why="nobody runs them", do=_DO)


async def no_sources(service: LedgerService, *, has_answers: bool) -> NoSources:
    """Return what refuses the questions on a ledger. Raises: Unavailable."""
    views = await service.datasets()
    is_asked = has_answers or any(view.schema is not UNSET for view in views)
    return NoSources(is_asked=is_asked)
