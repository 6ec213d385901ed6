"""Places of connections: what gives way once they are scarce."""

from __future__ import annotations

import ipaddress

import pytest

from streams.server.connection_pool import Pool, Wait, host_of

MOST = 80
BUSY = MOST * 3 // 4
SHARE = MOST // 8


class Held:
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


def held(pool: Pool, host: str, count: int, wait: Wait | None = None) -> list[Held]:
    return [Held(pool, host, wait) for _ in range(count)]


def alive(places: list[Held]) -> int:
    return sum(not each.ended for each in places)


def test_up_to_three_quarters_one_peer_may_have_all() -> None:
    assert alive(held(Pool(MOST), "10.0.0.1", BUSY, half())) == BUSY


def test_above_a_peer_keeps_its_share_and_its_oldest_end() -> None:
    pool = Pool(MOST)
    other = held(pool, "10.0.0.2", 5, half())
    many = [Held(pool, "10.0.0.1", half(float(at))) for at in range(BUSY)]
    given_up = BUSY - 5 + 1 - SHARE
    assert [each.ended for each in many] == [True] * given_up + [False] * (BUSY - given_up)
    assert alive(other) == 5
    assert pool.ended == given_up


def test_what_is_being_answered_never_gives_way() -> None:
    pool = Pool(MOST)
    answered = held(pool, "10.0.0.1", BUSY)
    late = held(pool, "10.0.0.1", 10, half())
    assert alive(answered) == BUSY
    assert alive(late) == 0
    assert alive(held(pool, "10.0.0.2", 1, half())) == 1


def test_an_incomplete_request_gives_way_before_an_idle_connection() -> None:
    pool = Pool(MOST)
    idle = held(pool, "10.0.0.1", SHARE - 1, Wait(False, True, 0.0))
    halves = held(pool, "10.0.0.1", BUSY - SHARE + 2, half(5.0))
    assert alive(idle) == SHARE - 1
    assert alive(halves) == 1


def test_an_idle_connection_gives_way_before_a_new_one() -> None:
    pool = Pool(MOST)
    idle = held(pool, "10.0.0.1", BUSY, Wait(False, True, 5.0))
    new = held(pool, "10.0.0.1", 1, Wait(True, False, 9.0))
    assert alive(new) == 1
    assert alive(idle) == SHARE - 1


def test_where_all_are_taken_the_peer_with_most_gives_way_to_another() -> None:
    pool = Pool(MOST)
    peers = [held(pool, f"10.0.1.{number}", SHARE, half()) for number in range(8)]
    assert sum(alive(each) for each in peers) == MOST
    assert alive(held(pool, "10.0.0.2", 1, half())) == 1
    assert sum(alive(each) for each in peers) == MOST - 1
    full = Pool(MOST)
    for number in range(8):
        held(full, f"10.0.1.{number}", SHARE)
    assert alive(held(full, "10.0.0.2", 1, half())) == 0


@pytest.mark.parametrize(
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
def test_a_peer_is_an_address_and_of_ipv6_its_network(one: str, other: str, is_same: bool) -> None:
    pool = Pool(MOST)
    first = held(pool, one, BUSY // 2, half())
    held(pool, other, BUSY - BUSY // 2, half(1.0))
    Held(pool, other, half(2.0))
    assert (alive(first) == 0) is is_same


@pytest.mark.parametrize("host", ["10.9.0.7", "::ffff:10.9.0.7", "fd00::7", ""])
def test_proxies_have_no_share(host: str) -> None:
    networks = [ipaddress.ip_network("10.9.0.0/24"), ipaddress.ip_network("fd00::/64")]
    pool = Pool(MOST, networks)
    assert alive(held(pool, host, MOST, half())) == MOST
    assert alive(held(pool, host, 1, half())) == 0


def test_a_place_is_free_once_its_connection_has_ended() -> None:
    pool = Pool(MOST)
    for _ in range(10 * MOST):
        pool.leave(Held(pool, "10.0.0.1", half()))
    assert pool.ended == 0


def test_hosts_of_sockets() -> None:
    assert host_of(("10.0.0.1", 5)) == "10.0.0.1"
    assert host_of(("::1", 5, 0, 0)) == "::1"
    assert host_of(None) == host_of("") == host_of(()) == ""
