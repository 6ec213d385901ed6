from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from accountant.foreign_text import escape_lines

STARTS = ()

_LOG = """
import logging
import structlog
from streams.telemetry import logs
from streams.settings import Settings
logs.configure_server(Settings(log_format="json", log_level="info"))
structlog.get_logger("ours").info("decided", partition=3, body="SECRET", request="SECRET")
structlog.get_logger("ours").debug("not shown")
logging.getLogger("theirs").warning("old %s", "style")
logging.getLogger("httpx").info("GET /datasets?analyst=SECRET")
"""


def test_logs_are_one_object_a_line_on_stderr_without_bodies() -> None:
    done = subprocess.run([sys.executable, "-c", _LOG], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [(line["event"], line["level"]) for line in lines] == [
        ("decided", "info"),
        ("old style", "warning"),
    ]
    assert lines[0]["partition"] == 3
    assert "SECRET" not in done.stderr


_HOSTILE = """
import logging
from streams.telemetry import logs
from streams.telemetry.logs import get_logger
from streams.settings import Settings
for form in ("console", "json"):
    logs.configure(Settings(log_format=form, log_level="info"))
    text = "a\\x1b[2J\\nb\\u202e\\u2028"
    get_logger("ours").info(text, name=text, names=[text])
    logging.getLogger("theirs").warning("old %s", text)
    try:
        raise ValueError(text)
    except ValueError:
        get_logger("ours").exception("failed")
"""


def test_text_written_by_others_is_escaped_in_log_lines() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _HOSTILE], capture_output=True, text=True, check=True
    )
    assert escape_lines(done.stderr) == done.stderr
    assert "old a\\u001b[2J\\u000ab\\u202e\\u2028" in done.stderr
    lines = done.stderr.splitlines()
    assert [line for line in lines if line.startswith("b")] == ["b\\u202e\\u2028"]  # a traceback's


_REFUSED = """
import logging
from streams.telemetry import logs
from streams.errors import Refused
from streams.telemetry.logs import get_logger
from streams.settings import Settings
logs.configure(Settings(log_level="info"))
for planted in (Refused("no topics"), ValueError("a slip")):
    for log in (get_logger("ours"), logging.getLogger("theirs")):
        try:
            raise planted
        except Exception as error:
            log.exception(f"failed {error}")
"""


def test_a_refusal_is_logged_without_a_traceback_and_a_slip_with_one() -> None:
    command = [sys.executable, "-c", _REFUSED]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr.count("failed no topics") == 2
    assert done.stderr.count("failed a slip") == 2
    assert done.stderr.count("Traceback") == 2


_AS_LIBRARY = """
import logging
import sys
import structlog
from streams.telemetry.logs import get_logger
log = get_logger("ours")
log.info("refolded", partition=0)
log.warning("ended", why="disk", body="SECRET")
assert not structlog.is_configured()
if len(sys.argv) > 1:
    logging.basicConfig(level="INFO", format="%(name)s %(levelname)s %(message)s")
    log.info("refolded", partition=0)
"""


def test_a_library_logs_only_warnings_and_prints_nothing() -> None:
    command = [sys.executable, "-c", _AS_LIBRARY]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "event='ended' why='disk' body='(left out)'\n")
    done = subprocess.run([*command, "more"], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert done.stderr.splitlines()[1:] == ["ours INFO event='refolded' partition=0"]


_A_LEDGER = """
import sys
from streams.client import Accountant
with Accountant(f"sqlite:///{sys.argv[1]}") as ledger:
    ledger.as_owner("owner").open("census", {"filter": "basic", "epsilon": "1"})
"""


def test_a_program_with_a_ledger_has_its_output_for_itself(file: Path) -> None:
    command = [sys.executable, "-c", _A_LEDGER, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_a_server_logs_the_variables_it_ignores() -> None:
    wrong = {
        "ACCOUNTANT_PROT": "1",
        "ACOUNTANT_ALERT_WEBHOK": "SECRET",
        "ACCOUNTANT_OWNER": "ops",
        "ACCOUNTANT_ALLOW_UNKNOWN_SETTINGS": "ACCOUNTANT_PROT",
        "ACCOUNTANT_PORT": "tcp://10.0.0.1:8000",
        "ACCOUNTANT_SERVICE_HOST": "10.0.0.1",
    }
    done = subprocess.run(
        [sys.executable, "-c", _LOG],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **wrong},
    )
    result = [json.loads(line) for line in done.stderr.splitlines()]
    assert {
        line["name"]: line["meant"] for line in result if line["event"] == "setting_unknown"
    } == {
        "ACCOUNTANT_PROT": "ACCOUNTANT_PORT",
        "ACOUNTANT_ALERT_WEBHOK": "ACCOUNTANT_ALERT_WEBHOOK",
    }
    links = [line["names"] for line in result if line["event"] == "service_links_ignored"]
    assert links == [["ACCOUNTANT_PORT", "ACCOUNTANT_SERVICE_HOST"]]
    assert "SECRET" not in done.stderr
    assert "10.0.0.1" not in done.stderr
