"""schemathesis reads the door's document and looks for an answer that it does not allow.

What it is told beside the document stands in contract_hooks.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.nightly import NIGHTLY, rounds
from tests.streams.gateway.door import NOON, Door, TestClock

_HERE = Path(__file__).parent
CASES = rounds(1_000, 10_000)
# Of each operation, at random; thousands are those that schemathesis derives from the document.
_RANDOM = rounds(15, 700)


@pytest.mark.slow
@pytest.mark.timeout(2_400 if NIGHTLY else 300)
def test_schemathesis_finds_nothing(file: Path, clock: TestClock, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    with Door(file, clock) as door:
        door.open()
        assert door.ask().status_code == 200
        schemas = door.http.get("/schema/openapi.json").json()["components"]["schemas"]
        amounts = [schema for schema in schemas.values() if "x-minimum" in schema]
        told = {
            "SCHEMATHESIS_HOOKS": "contract_hooks",
            "CONTRACT_AMOUNTS": json.dumps(amounts),
            "CONTRACT_ISSUED": str(NOON),
            "PYTHONPATH": str(_HERE),
        }
        command = [
            str(Path(sys.executable).with_name("st")),
            *("run", f"{door.url}/schema/openapi.json", "--no-color"),
            *("--checks", "all", "--max-examples", str(_RANDOM), "--continue-on-failure"),
            # A stream has no end to wait for: test_document.py holds it to the document.
            *("--exclude-path", "/events"),
            *("--report", "json", "--report-json-path", str(report)),
            # `make test` does the same each time; the night looks further.
            *([] if NIGHTLY else ["--seed", "1"]),
        ]
        run = subprocess.run(
            command, env=os.environ | told, cwd=tmp_path, capture_output=True, text=True
        )
    assert run.returncode == 0, run.stdout[-6_000:] + run.stderr[-2_000:]
    found = json.loads(report.read_text())
    assert (found["complete"], found["failures"], found["errors"]) == (True, [], [])
    assert found["test_cases"]["generated"] >= CASES
    assert found["operations"]["tested"] == found["operations"]["selected"]
    accepted = {
        name: sum(phase["accepted"] for phase in phases.values())
        for name, phases in found["valid_rates"].items()
    }
    # Nothing is shown by requests of which none is accepted.
    assert min(accepted.values()) >= 1, accepted
