from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def checkpoint_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a ledger's process keeps its checkpoints, one each tenth of a second."""
    place = tmp_path / "kept"
    monkeypatch.setenv("ACCOUNTANT_CHECKPOINTS", str(place))
    monkeypatch.setenv("ACCOUNTANT_CHECKPOINT_SECONDS", "0.1")
    return place
