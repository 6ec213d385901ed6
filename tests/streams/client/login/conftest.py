from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.streams.client.login.login_provider import LoginProvider


@pytest.fixture
def provider() -> Iterator[LoginProvider]:
    from tests.streams.client.login.login_provider import LoginProvider

    with LoginProvider() as made:
        yield made


@pytest.fixture
def logins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of this test's logins, which does not exist yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "streaming-privacy-accountant" / "logins"
