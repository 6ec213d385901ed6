from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.streams.oauth.sign_in_provider import SignInProvider


@pytest.fixture
def sign_in_provider() -> Iterator[SignInProvider]:
    with SignInProvider() as made:
        yield made
