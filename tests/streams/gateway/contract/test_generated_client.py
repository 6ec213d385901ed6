"""A client that openapi-python-client makes of the document, used against a running gateway."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from accountant.records import Body
from accountant.records.previews import PreviewRequest
from streams.clock import SystemClock
from tests.streams.gateway.local_server import LocalServer
from tests.streams.gateway.records import new_id

OPENS = ("tests/streams/gateway/contract/*",)
STARTS = ()

_PROGRAM = Path(__file__).with_name("generated_program.py")


@pytest.mark.slow
def test_a_generated_client_opens_a_dataset_sends_requests_and_lists(
    file: Path, tmp_path: Path
) -> None:
    clock = SystemClock()
    document = tmp_path / "openapi.json"
    with LocalServer(file, clock) as server:
        document.write_bytes(server.http.get("/schema/openapi.json").content)
        generated = subprocess.run(
            [
                str(Path(sys.executable).with_name("openapi-python-client")),
                *("generate", "--path", str(document), "--meta", "none"),
                *("--output-path", str(tmp_path / "server_client")),
            ],
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
        assert generated.returncode == 0, generated.stdout + generated.stderr
        # The generator leaves out what it does not understand, and says so. A line of a batch is
        # of an operation that it cannot call: its body is NDJSON.
        left_out = re.findall(r"Unable to parse schema (\S+)", generated.stdout + generated.stderr)
        assert left_out == ["/components/schemas/BatchLine"]
        # It says nothing of a record that it takes for a union of anything, as one with a `oneOf`.
        models = (tmp_path / "server_client" / "models" / "__init__.py").read_text()
        for record in (Body, PreviewRequest):
            for kind in get_args(record) or (record,):
                assert f'"{kind.__name__}"' in models
        ids = [new_id(clock) for _ in range(4)]
        used = subprocess.run(
            [sys.executable, str(_PROGRAM), server.url, *ids],
            capture_output=True,
            text=True,
            env={"PYTHONPATH": str(tmp_path), "NO_PROXY": "*"},
        )
        assert used.returncode == 0, used.stderr
        spent = server.http.get("/datasets/census").json()["totals"]["epsilon"]
    assert json.loads(used.stdout) == {
        "opened": "opened",
        "previewed": True,
        "granted": True,
        "cost": {"epsilon": "0.4", "delta": "0"},
        "repeated": [False, True],
        "counted": [True, {"claim": {"type": "pure", "epsilon": "0.1"}}],
        "refused": [False, "exhausted", "pure:0.5"],
        "broken": ["Problem", "claim.epsilon", 422],
        "listed": ["census", {"epsilon": "0.5", "delta": "0"}],
        "usage": ["ana", "0.5"],
        "unknown": ["Problem", "Unknown dataset"],
    }
    assert spent == "0.5"
