"""The tutorial on Kafka, worked through with the broker that it starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.tutorial import ROOT, work_through

OPENS = ("docs/tutorials/on-kafka.md",)


@pytest.mark.slow
@pytest.mark.timeout(1_800)  # a broker of its own and a dozen commands
def test_the_kafka_tutorial_works_as_printed(tmp_path: Path) -> None:
    work_through(ROOT / "docs" / "tutorials" / "on-kafka.md", tmp_path)
