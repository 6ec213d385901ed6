"""schemathesis reads the server's document and looks for an answer that it does not allow.

contract_hooks.py adds what it needs besides the document.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from streams.pages import PAGES
from streams.settings import Settings
from tests.nightly import NIGHTLY, rounds
from tests.streams.auth.roles_server import RolesServer
from tests.streams.auth.token_server import TokenServer
from tests.streams.clock import NOON, TestClock
from tests.streams.gateway.asking import asking, data_settings, opening_with_schema
from tests.streams.gateway.local_server import LocalServer

OPENS = ("tests/streams/gateway/contract/*",)
STARTS = ()

_HERE = Path(__file__).parent
CASES = rounds(400, 10_000)
# Of each operation, at random. The thousands that schemathesis derives from the document, which
# take three minutes of processor time, are for `make nightly`.
_RANDOM = rounds(15, 700)
_RANDOM_KNOWN = rounds(3, 200)
_RANDOM_ROLE = rounds(4, 100)


@pytest.mark.slow
@pytest.mark.timeout(2_400)
def test_schemathesis_finds_no_failure(file: Path, clock: TestClock, tmp_path: Path) -> None:
    settings = Settings(port=0, **data_settings(tmp_path))
    with LocalServer(file, clock, settings, pages=PAGES) as server:
        server.open()
        assert server.ask().status_code == 200
        known = json.dumps(answered_question(server))
        few = () if NIGHTLY else ("--phases", "examples,fuzzing")
        found = run(server, tmp_path, _RANDOM, *few, CONTRACT_KNOWN=known)
    assert found["test_cases"]["generated"] >= CASES
    accepted = {
        name: sum(phase["accepted"] for phase in phases.values())
        for name, phases in found["valid_rates"].items()
    }
    # Nothing is shown by requests of which none is accepted.
    assert min(accepted.values()) >= 1, accepted


def answered_question(server: LocalServer) -> dict[str, Any]:
    """Ask a question, and return the parameters by which its decision and its answer are found."""
    opened = server.post("/datasets", opening_with_schema(server.clock, "survey"))
    assert opened.json()["outcome"] == "opened", opened.text
    asked = asking(server.clock, "survey")
    assert server.post("/requests", asked).json()["granted"]
    request_id, dataset, analyst = (asked[name] for name in ("request_id", "dataset", "analyst"))
    query = {"dataset": dataset, "analyst": analyst}
    answer = server.http.get(f"/answers/{request_id}", params=query, headers={"prefer": "wait=30"})
    assert answer.status_code == 200, answer.text
    in_dataset = {"dataset": dataset, "request_id": request_id}
    paths = server.http.get("/schema/openapi.json").json()["paths"]
    reads = [path for path, each in paths.items() if "{dataset}" in path and "get" in each]
    return {
        # At random, one operation or another would meet no dataset that is there.
        **{f"GET {path}": {"path": {"dataset": dataset}, "query": {}} for path in reads},
        "GET /answers/{request_id}": {"path": {"request_id": request_id}, "query": query},
        "GET /datasets/{dataset}/requests/{request_id}": {
            "path": in_dataset,
            "query": {"analyst": analyst},
        },
    }


@pytest.mark.slow
@pytest.mark.timeout(2_400 if NIGHTLY else 900)
def test_schemathesis_finds_no_failure_with_authentication(tmp_path: Path) -> None:
    # Also that no operation is answered without the token, or with a wrong one.
    with TokenServer(tmp_path, pages=PAGES) as server:
        few = () if NIGHTLY else ("--phases", "fuzzing")
        run(server, tmp_path, _RANDOM_KNOWN, *few, token=server.administrator)


# Whose records may change what is there; a stranger's and an auditor's change nothing.
_ROLES = {"root": True, "olga": True, "ana": True, "eng": True, "aud": False, "zoe": False}


@pytest.mark.slow
@pytest.mark.timeout(2_400 if NIGHTLY else 900)
@pytest.mark.parametrize("name", _ROLES if NIGHTLY else ["ana", "zoe"])
def test_schemathesis_finds_no_failure_in_any_role(tmp_path: Path, name: str) -> None:
    with RolesServer(tmp_path, pages=PAGES) as server:
        server.open_for_olga("census", access="members")
        for member, role in (("ana", "analyst"), ("ben", "analyst"), ("eng", "engine")):
            server.enrol("census", member, role)
        server.enrol("census", "aud", "auditor")
        server.granted("census", "ben")
        before = server.stored_rows()
        few = () if NIGHTLY else ("--phases", "fuzzing")
        names = {"CONTRACT_WHO": name, "CONTRACT_DATASETS": "census missing"}
        names |= {"CONTRACT_ENGINE": "yes"} if name == "eng" else {}
        run(server, tmp_path, _RANDOM_ROLE, *few, token=server.tokens[name], **names)
        after = server.stored_rows()
        rows = server.see("root", "/datasets/census/usage").json()
    if _ROLES[name]:
        assert after != before
    else:  # but for asks for access, which anybody may send
        changed = [value for key, value in after[1] if (key, value) not in before[1]]
        types = {json.loads(value)["type"] for value in changed}
        assert types <= {"ask", "snapshot", "partition"}
    if name == "root":
        return  # it may have given itself any role
    asking = {row["analyst"] for row in rows}
    assert asking <= {"ben"} | ({"ana"} if name in {"ana", "eng"} else set())


def run(
    server: LocalServer,
    directory: Path,
    examples: int,
    *more: str,
    token: str | None = None,
    **environment: str,
) -> Any:
    """Return what schemathesis reports of a server, in which it has found nothing."""
    report = directory / "report.json"
    shown = {} if token is None else {"Authorization": f"Bearer {token}"}
    document = server.http.get("/schema/openapi.json", headers=shown).json()
    schemas = document["components"]["schemas"].values()
    result = {
        "SCHEMATHESIS_HOOKS": "contract_hooks",
        "CONTRACT_AMOUNTS": json.dumps([schema for schema in schemas if "x-minimum" in schema]),
        "CONTRACT_ISSUED": str(NOON),
        "PYTHONPATH": str(_HERE),
        **environment,
    }
    command = [
        str(Path(sys.executable).with_name("st")),
        *("run", f"{server.url}/schema/openapi.json", "--no-color"),
        *("--checks", "all", "--max-examples", str(examples), "--continue-on-failure"),
        *(part for name, value in shown.items() for part in ("--header", f"{name}: {value}")),
        # A stream has no end to wait for: test_document.py holds it to the document.
        *("--exclude-path", "/events", "--exclude-path", "/datasets/{dataset}/answers/events"),
        *more,
        *("--report", "json", "--report-json-path", str(report)),
        # `make test` does the same each time; the night looks further.
        *([] if NIGHTLY else ["--seed", "1"]),
    ]
    done = subprocess.run(
        command, env=os.environ | result, cwd=directory, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-6_000:] + done.stderr[-2_000:]
    found = json.loads(report.read_text())
    assert (found["complete"], found["failures"], found["errors"]) == (True, [], [])
    assert found["operations"]["tested"] == found["operations"]["selected"]
    return found
