"""Chooses the connection to end when there are too many, so that no peer locks others out."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Wait(NamedTuple):
    """How long a connection has waited for its client. The smallest is ended first.

    Attributes:
        is_new: it opened so recently that a whole request may have arrived unread.
        is_idle: it has been answered, and has begun no other request.
        since: when it began to wait, in monotonic seconds.
    """

    is_new: bool
    is_idle: bool
    since: float


class PooledConnection(Protocol):
    """A connection that occupies a slot of a pool."""

    def wait(self) -> Wait | None:
        """Return its wait for the client, None while it is being answered."""
        ...

    def end(self) -> None:
        """End the connection."""
        ...


class Pool:
    """The slots of a server's connections.

    Once three quarters are taken, one peer may have at most an eighth. Its excess is ended: the
    oldest incomplete request first, then idle connections, new ones last. A connection that is
    being answered is never ended.

    Args:
        limit: the number of slots.
        proxies: peers without a maximum, since many clients connect through them.
    """

    def __init__(self, limit: int, proxies: Sequence[Network] = ()) -> None:
        self.limit = limit
        self.ended = 0
        self._proxies = proxies
        self._peers: dict[PooledConnection, str | None] = {}

    def enter(self, slot: PooledConnection, host: str) -> None:
        """Give a connection a slot; this may end another connection, or this one."""
        peer = self._peer(host)
        self._peers[slot] = peer
        if len(self._peers) <= self.limit * 3 // 4:
            return
        if peer is not None:
            own = self._of(peer)
            for each in _in_order(own)[: max(0, len(own) - max(1, self.limit // 8))]:
                self._end(each)
        if slot in self._peers and len(self._peers) > self.limit:
            self._end(self._next(slot))

    def leave(self, slot: PooledConnection) -> None:
        """Free the slot of an ended connection. Safe to repeat."""
        self._peers.pop(slot, None)

    def _of(self, peer: str) -> list[PooledConnection]:
        return [slot for slot, other in self._peers.items() if other == peer]

    def _next(self, new: PooledConnection) -> PooledConnection:
        """Return the connection to end for a new one: one of the busiest peer, else the new one."""
        counted = Counter(peer for peer in self._peers.values() if peer is not None)
        for peer, _ in counted.most_common():
            waiting = _in_order(slot for slot in self._of(peer) if slot is not new)
            if waiting:
                return waiting[0]
        return new

    def _end(self, slot: PooledConnection) -> None:
        self.ended += 1
        self.leave(slot)
        slot.end()

    def _peer(self, host: str) -> str | None:
        """Return the peer that a connection counts for: an address, or the /64 of an IPv6 one."""
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


def _in_order(slots: Iterable[PooledConnection]) -> list[PooledConnection]:
    """Return the connections that may be ended, the first one to end first."""
    waits = [(wait, slot) for slot in slots if (wait := slot.wait()) is not None]
    return [slot for _, slot in sorted(waits, key=lambda each: each[0])]


def host_of(peername: object) -> str:
    """Return the peer's address from asyncio's `peername`."""
    return str(peername[0]) if isinstance(peername, tuple) and peername else ""
