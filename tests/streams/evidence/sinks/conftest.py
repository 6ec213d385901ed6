"""Each kind of sink, for the tests of all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.streams.evidence.sinks.kinds import Kind
    from tests.streams.evidence.sinks.receiver import CheckpointReceiver


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[CheckpointReceiver]:
    from tests.streams.evidence.sinks.receiver import CheckpointReceiver

    with CheckpointReceiver(tmp_path / "received") as running:
        yield running


@pytest.fixture(params=["directory", pytest.param("topic", marks=pytest.mark.kafka), "webhook"])
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> Kind:
    from tests.streams.evidence.sinks.kinds import InDirectory, OnTopic, OnWebhook

    if request.param == "directory":
        return InDirectory(tmp_path)
    if request.param == "webhook":
        return OnWebhook(request.getfixturevalue("receiver"))
    proxy = request.getfixturevalue("proxy")
    return OnTopic(proxy, request.getfixturevalue("application"))
