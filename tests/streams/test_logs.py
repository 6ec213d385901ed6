from __future__ import annotations

import json
import subprocess
import sys

_LOG = """
import logging
import structlog
from streams import logs
from streams.settings import Settings
logs.configure(Settings(log_format="json", log_level="info"))
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
