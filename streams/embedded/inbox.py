"""Where an embedded journal finds its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from accountant.records import Source
from accountant.records.inputs import Input


class Inputs(Protocol):
    """Bodies that wait to be decided, numbered as they are taken out.

    What waits was acknowledged to nobody, so a crash that loses it loses nothing. The
    implementation is `handoff.Handoff`.
    """

    def seek(self, offsets: Mapping[Source, int]) -> None:
        """Number the next inputs from these offsets."""
        ...

    async def take(self, most: int, wait: float) -> list[Input]:
        """Return the next inputs, waiting at most `wait` seconds for the first."""
        ...
