"""A door with a real OpenID provider, which is killed and comes back with other keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.provider.real_provider import RealProvider
from tests.streams.gateway.access.known_door import KnownDoor
from tests.streams.gateway.door import eventually


@pytest.fixture
def provider() -> Iterator[RealProvider]:
    with RealProvider("ana", "local:eve") as running:
        yield running


@pytest.fixture
def door(tmp_path: Path, provider: RealProvider) -> Iterator[KnownDoor]:
    known: Any = {"oidc_issuer": provider.issuer, "oidc_audience": "accountant"}
    with KnownDoor(tmp_path, **known) as made:
        yield made


def test_its_tokens_are_known_by_their_subject(door: KnownDoor, provider: RealProvider) -> None:
    me = door.get("/me", provider.token("ana")).json()
    assert (me["name"], me["kind"], me["administrator"]) == ("ana", "oidc", False)


def test_its_tokens_for_others_are_not(door: KnownDoor, provider: RealProvider) -> None:
    assert door.status(provider.token("ana", "urn:payroll")) == 401
    assert door.status(provider.token("ana", "urn:elliptic")) == 401
    assert door.status(provider.token("local:eve")) == 401  # a name of static tokens
    assert door.status(provider.token("ana")) == 200


def test_an_elliptic_key_is_as_good(tmp_path: Path, provider: RealProvider) -> None:
    known: Any = {"oidc_issuer": provider.issuer, "oidc_audience": "elliptic"}
    with KnownDoor(tmp_path, **known) as door:
        assert door.status(provider.token("ana", "urn:elliptic")) == 200


def test_it_is_killed_and_comes_back_with_other_keys(
    door: KnownDoor, provider: RealProvider
) -> None:
    before = provider.token("ana")
    assert door.status(before) == 200
    provider.kill()
    assert door.status(before) == 200  # known keys go on
    assert door.status(door.administrator) == 200
    provider.start()
    after = provider.token("ana")
    eventually(lambda: door.status(after) == 200)
    eventually(lambda: door.status(before) == 401)  # its key is told no more
