"""What a gateway knows of one partition, fed with rows and decisions by a test."""

from __future__ import annotations

from collections.abc import Iterable

from accountant.claims.text import parse_claim
from accountant.records.header import decode_header
from accountant.records.previews import PreviewRequest
from accountant.replay.follow import FollowedPartition
from streams.service.live_limits import LiveLimits
from streams.service.live_views import CountedDecisions, LiveViews
from tests.accountant.world import World
from tests.streams.clock import TestClock


class Gateway:
    """A gateway's reading of a world's rows and decisions; its clock is the world's.

    Attributes:
        clock: the gateway's, in place of the world's.
    """

    def __init__(self, world: World, *, clock: int | None = None) -> None:
        self.followed = FollowedPartition.from_beginning(world.genesis)
        self.limits = LiveLimits(
            lambda _: self.followed.state, TestClock(world.now if clock is None else clock)
        )
        counts = CountedDecisions()
        self.views = LiveViews(
            lambda: [self.followed.state.ledgers],
            lambda name: self.followed.state.ledgers.get(name),  # noqa: PLW0108 (it is replaced)
            counts,
        )

    def read_rows(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        self.followed = FollowedPartition.from_rows(0, rows)

    def read(self, values: Iterable[bytes]) -> None:
        for value in values:
            self.followed.take(decode_header(value), value)

    def previewed(self, claim: str, analyst: str) -> dict[str, object]:
        """Return the fields of a preview of the dataset census."""
        asked = PreviewRequest(parse_claim(claim), "person", "add_remove", analyst)
        view = self.views.dataset("census")
        assert view is not None
        shown = self.limits.preview(view, asked)
        return {name: getattr(shown, name) for name in shown.__struct_fields__}
