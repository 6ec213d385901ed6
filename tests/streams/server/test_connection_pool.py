"""Places of connections: what gives way once they are scarce."""

from __future__ import annotations

import ipaddress

from streams.server.connection_pool import Pool, Wait, host_of
from tests.every_case import every_case

MAXIMUM = 80
BUSY = MAXIMUM * 3 // 4
SHARE = MAXIMUM // 8


class FakeConnection:
    """A connection of a test."""

    def __init__(self, pool: Pool, host: str, wait: Wait | None) -> None:
        self._wait = wait
        self.ended = False
        pool.enter(self, host)

    def wait(self) -> Wait | None:
        return self._wait

    def end(self) -> None:
        self.ended = True


def half(at: float = 0.0) -> Wait:
    return Wait(False, False, at)


def open_connections(
    pool: Pool, host: str, count: int, wait: Wait | None = None
) -> list[FakeConnection]:
    return [FakeConnection(pool, host, wait) for _ in range(count)]


def alive(slots: list[FakeConnection]) -> int:
    return sum(not each.ended for each in slots)


def test_one_peer_may_use_three_quarters_of_the_pool() -> None:
    assert alive(open_connections(Pool(MAXIMUM), "10.0.0.1", BUSY, half())) == BUSY


def test_above_three_quarters_the_oldest_connections_over_the_share_end() -> None:
    pool = Pool(MAXIMUM)
    other = open_connections(pool, "10.0.0.2", 5, half())
    many = [FakeConnection(pool, "10.0.0.1", half(float(at))) for at in range(BUSY)]
    given_up = BUSY - 5 + 1 - SHARE
    assert [each.ended for each in many] == [True] * given_up + [False] * (BUSY - given_up)
    assert alive(other) == 5
    assert pool.ended == given_up


def test_a_connection_with_a_running_request_is_never_ended() -> None:
    pool = Pool(MAXIMUM)
    answered = open_connections(pool, "10.0.0.1", BUSY)
    late = open_connections(pool, "10.0.0.1", 10, half())
    assert alive(answered) == BUSY
    assert alive(late) == 0
    assert alive(open_connections(pool, "10.0.0.2", 1, half())) == 1


def test_an_incomplete_request_is_ended_before_an_idle_connection() -> None:
    pool = Pool(MAXIMUM)
    idle = open_connections(pool, "10.0.0.1", SHARE - 1, Wait(False, True, 0.0))
    halves = open_connections(pool, "10.0.0.1", BUSY - SHARE + 2, half(5.0))
    assert alive(idle) == SHARE - 1
    assert alive(halves) == 1


def test_an_idle_connection_is_ended_before_a_new_one() -> None:
    pool = Pool(MAXIMUM)
    idle = open_connections(pool, "10.0.0.1", BUSY, Wait(False, True, 5.0))
    new = open_connections(pool, "10.0.0.1", 1, Wait(True, False, 9.0))
    assert alive(new) == 1
    assert alive(idle) == SHARE - 1


def test_in_a_full_pool_the_largest_peer_loses_a_connection() -> None:
    pool = Pool(MAXIMUM)
    peers = [open_connections(pool, f"10.0.1.{number}", SHARE, half()) for number in range(8)]
    assert sum(alive(each) for each in peers) == MAXIMUM
    assert alive(open_connections(pool, "10.0.0.2", 1, half())) == 1
    assert sum(alive(each) for each in peers) == MAXIMUM - 1
    full = Pool(MAXIMUM)
    for number in range(8):
        open_connections(full, f"10.0.1.{number}", SHARE)
    assert alive(open_connections(full, "10.0.0.2", 1, half())) == 0


@every_case(
    ("one", "other", "is_same"),
    [
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("10.0.0.1", "::ffff:10.0.0.1", True),
        ("fe80::1%eth0", "fe80::2%eth1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("127.0.0.1", "127.0.0.2", False),
    ],
)
def test_a_peer_is_an_ipv4_address_or_an_ipv6_network(one: str, other: str, is_same: bool) -> None:
    pool = Pool(MAXIMUM)
    first = open_connections(pool, one, BUSY // 2, half())
    open_connections(pool, other, BUSY - BUSY // 2, half(1.0))
    FakeConnection(pool, other, half(2.0))
    assert (alive(first) == 0) is is_same


@every_case("host", ["10.9.0.7", "::ffff:10.9.0.7", "fd00::7", ""])
def test_a_trusted_proxy_may_use_the_whole_pool(host: str) -> None:
    networks = [ipaddress.ip_network("10.9.0.0/24"), ipaddress.ip_network("fd00::/64")]
    pool = Pool(MAXIMUM, networks)
    assert alive(open_connections(pool, host, MAXIMUM, half())) == MAXIMUM
    assert alive(open_connections(pool, host, 1, half())) == 0


def test_a_connection_that_leaves_frees_its_slot() -> None:
    pool = Pool(MAXIMUM)
    for _ in range(10 * MAXIMUM):
        pool.leave(FakeConnection(pool, "10.0.0.1", half()))
    assert pool.ended == 0


def test_the_host_of_a_socket_address_is_read() -> None:
    assert host_of(("10.0.0.1", 5)) == "10.0.0.1"
    assert host_of(("::1", 5, 0, 0)) == "::1"
    assert host_of(None) == host_of("") == host_of(()) == ""
