"""Who was fenced owns again in another generation of the group, and not before."""

from __future__ import annotations

import asyncio

import pytest

from streams.errors import Fenced, Unavailable
from streams.worker.lease import Lease


async def owns_soon(lease: Lease, fault: BaseException | None) -> bool:
    """Return whether a lease allows ownership within a moment."""
    try:
        async with asyncio.timeout(0.3):
            return await lease.may_own(fault)
    except TimeoutError:
        return False


async def test_a_fenced_owner_waits_for_another_generation() -> None:
    generation = 1
    lease = Lease(lambda: generation)
    assert await owns_soon(lease, None)
    assert await owns_soon(lease, Unavailable("away"))
    assert not await owns_soon(lease, Fenced("by another"))
    generation = 2
    assert await owns_soon(lease, None)


async def test_a_restart_does_not_shorten_the_wait_of_a_fenced_owner() -> None:
    generation = 1
    first = Lease(lambda: generation)
    assert not await owns_soon(first, Fenced("by another"))
    second = Lease(lambda: generation, after=first)
    assert not await owns_soon(second, None)
    assert not await owns_soon(Lease(lambda: generation, after=second), None)
    generation = 2
    assert await owns_soon(second, None)
    assert await owns_soon(second, None), "once waited for, it is over"


@pytest.mark.parametrize("fault", [None, Fenced("by another")])
async def test_a_revoked_partition_is_never_owned_again(fault: BaseException | None) -> None:
    lease = Lease(lambda: 1)
    lease.revoked = True
    assert await lease.may_own(fault) is False
    assert not lease.holds()
