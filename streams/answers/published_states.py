"""What a curator publishes of its sources, beside the answers: which questions servers refuse.

A gateway has no source. It learns which columns of a dataset's schema the source lacks, and whether
the source answers nobody: no other name, no type and no cause. Whoever forges it can only deny.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec


class _Published(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of what is published."""


class LackedColumn(_Published, frozen=True):
    """A column of a schema on which no question has a useful answer.

    Attributes:
        kind: `streams.sources.source_facts.FindingKind`.
        is_unit: it names the unit, so that no question has one.
    """

    column: str
    kind: str
    is_unit: bool = False


class PublishedState(_Published, frozen=True):
    """What is known of the source of a dataset.

    Attributes:
        source: "" once nothing is known any more.
        is_closed: it answers nobody.
    """

    dataset: str
    source: str
    is_closed: bool = False
    lacks: tuple[LackedColumn, ...] = ()


class StatePublisher(Protocol):
    """A store of answers that others read."""

    async def publish_states(self, states: Sequence[PublishedState]) -> None:
        """Publish what is known of every dataset, where that is not what was published last.

        Raises: Unavailable: whether it is published is unknown. Refused: another curator writes.
        """
        ...
