"""The tutorial on Kafka, worked through with the broker that it starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.tutorial import ROOT, work_through


@pytest.mark.slow
@pytest.mark.timeout(600)  # a broker of its own and a dozen commands
def test_the_tutorial_on_kafka_works_as_it_is_printed(tmp_path: Path) -> None:
    work_through(ROOT / "docs" / "tutorials" / "on-kafka.md", tmp_path)
