"""The page "Send many requests": its lines for a shell send a file of any length."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from tests.streams.clock import TestClock
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import opening, request

OPENS = ("docs/how-to/many-requests.md",)
STARTS = ()

PAGE: Final = (Path(__file__).parents[3] / "docs/how-to/many-requests.md").read_text()
LINES: Final = 2_500
CLAIM: Final = {"type": "pure", "epsilon": "0.0001"}


def send(directory: Path, url: str) -> list[dict[str, Any]]:
    """Run the page's lines in a directory, as a reader does; return the responses."""
    (lines,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    subprocess.run(
        ["sh", "-c", lines],
        cwd=directory,
        env={**os.environ, "ACCOUNTANT_URL": url, "NO_PROXY": "*"},
        check=True,
    )
    return [json.loads(line) for line in (directory / "decisions.ndjson").read_text().splitlines()]


@pytest.mark.slow
def test_the_printed_lines_send_more_than_a_batch_and_may_be_run_again(
    file: Path, tmp_path: Path, clock: TestClock
) -> None:
    with LocalServer(file, clock) as server:
        server.post("/datasets", opening(clock))
        bodies = [request(clock, claim=CLAIM) for _ in range(LINES)]
        text = "".join(json.dumps(body) + "\n" for body in bodies)
        (tmp_path / "requests.ndjson").write_text(text)
        first = send(tmp_path, server.url)
        assert [each["request"]["request_id"] for each in first] == [
            each["request_id"] for each in bodies
        ]
        assert {each["granted"] for each in first} == {True}
        again = send(tmp_path, server.url)
    assert {(each["outcome"], each["granted"], each["first"]["granted"]) for each in again} == {
        ("repeated", False, True)
    }
    assert len(again) == LINES
