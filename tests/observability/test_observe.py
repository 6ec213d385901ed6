"""`make observe`: its suggested commands work, and the alert fires and ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.observability.programs import Programs, free_port, running, until

ROOT = Path(__file__).parents[2]
PARTS = ("LEDGER", "PROMETHEUS", "ALERTMANAGER", "WEBHOOK")


def test_its_printed_commands_raise_and_end_an_alert(programs: Programs, tmp_path: Path) -> None:
    log = tmp_path / "printed"
    environment = {
        **os.environ,
        "OBSERVABILITY_BIN": str(programs.where),
        **{f"{part}_PORT": str(free_port()) for part in PARTS},
    }
    command = [sys.executable, ROOT / "scripts" / "observe.py"]
    with running(command, log, env=environment) as process:
        until("it is ready", lambda: "Alerts, as they" in log.read_text(), log)
        try_it, end_it = re.findall(r"(?:^ {4}\S.*\n(?: {8}.*\n)*)+", log.read_text(), re.MULTILINE)
        address = try_it.splitlines()[0]

        def run(block: str) -> str:
            done = subprocess.run(
                ["sh", "-c", block], cwd=ROOT, capture_output=True, text=True, timeout=120
            )
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        assert "PrivacyBudgetExhausted" in run(try_it).splitlines()[-1]
        firing = "firing PrivacyBudgetExhausted severity=critical dataset=statistics.census"
        until("the alert", lambda: firing in log.read_text(), log)
        run(f"{address}\n{end_it}")
        until(
            "its end",
            lambda: "resolved PrivacyBudgetExhausted" in log.read_text(),
            log,
            seconds=150,
        )
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
