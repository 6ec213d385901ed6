"""Which connection gives way where there are too many: no peer keeps the others out."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Wait(NamedTuple):
    """How a connection waits for its client; those that sort first give way first.

    Attributes:
        is_new: its request could begin so lately that it may be whole, and not yet read.
        is_idle: it has had its answer, and has begun no other request.
        since: when its request could begin, in seconds of the monotonic clock.
    """

    is_new: bool
    is_idle: bool
    since: float


class PooledConnection(Protocol):
    """A connection that takes a place in a pool."""

    def wait(self) -> Wait | None:
        """Return how it waits for its client, None while it is being answered."""
        ...

    def give_way(self) -> None:
        """End the connection."""
        ...


class Pool:
    """The places of a server's connections.

    Once three quarters are taken, a peer has an eighth of them at most: what exceeds it gives way,
    the oldest incomplete request first, then what is idle, and what is new last. A connection that
    is being answered never does.

    Args:
        most: places.
        proxies: peers without a share, since many clients come by them.
    """

    def __init__(self, most: int, proxies: Sequence[Network] = ()) -> None:
        self.most = most
        self.turned_away = 0
        self._proxies = proxies
        self._peers: dict[PooledConnection, str | None] = {}

    def enter(self, place: PooledConnection, host: str) -> None:
        """Give a place to a connection, which may cost it or another one theirs."""
        peer = self._peer(host)
        self._peers[place] = peer
        if len(self._peers) <= self.most * 3 // 4:
            return
        if peer is not None:
            own = self._of(peer)
            for each in _in_order(own)[: max(0, len(own) - max(1, self.most // 8))]:
                self._end(each)
        if place in self._peers and len(self._peers) > self.most:
            self._end(self._next(place))

    def leave(self, place: PooledConnection) -> None:
        """Take note that a connection has ended. Safe to repeat."""
        self._peers.pop(place, None)

    def _of(self, peer: str) -> list[PooledConnection]:
        return [place for place, other in self._peers.items() if other == peer]

    def _next(self, new: PooledConnection) -> PooledConnection:
        """Return what gives way to a new connection: of the peer that has most, else itself."""
        counted = Counter(peer for peer in self._peers.values() if peer is not None)
        for peer, _ in counted.most_common():
            waiting = _in_order(place for place in self._of(peer) if place is not new)
            if waiting:
                return waiting[0]
        return new

    def _end(self, place: PooledConnection) -> None:
        self.turned_away += 1
        self.leave(place)
        place.give_way()

    def _peer(self, host: str) -> str | None:
        """Return whose share a connection counts to: an address, of IPv6 its /64."""
        try:
            address = ipaddress.ip_address(host.partition("%")[0])
        except ValueError:
            return None
        if isinstance(address, ipaddress.IPv6Address):
            address = address.ipv4_mapped or address
        if any(address in network for network in self._proxies):
            return None
        if isinstance(address, ipaddress.IPv6Address):
            return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))
        return str(address)


def _in_order(places: Iterable[PooledConnection]) -> list[PooledConnection]:
    """Return the connections that may give way, the first to do so first."""
    waits = [(wait, place) for place in places if (wait := place.wait()) is not None]
    return [place for _, place in sorted(waits, key=lambda each: each[0])]


def host_of(peername: object) -> str:
    """Return the address in what asyncio says of a connection's other end."""
    return str(peername[0]) if isinstance(peername, tuple) and peername else ""
