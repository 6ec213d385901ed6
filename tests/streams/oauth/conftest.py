from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.streams.oauth.sign_in_provider import SignInProvider


@pytest.fixture
def sign_in_provider() -> Iterator[SignInProvider]:
    from tests.streams.oauth.sign_in_provider import SignInProvider

    with SignInProvider() as made:
        yield made
