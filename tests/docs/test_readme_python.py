"""README's program runs as it is printed, and charges once however often it runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from streams.client import Accountant

ROOT = Path(__file__).resolve().parents[2]


def test_the_readme_program_is_charged_once_over_several_runs(tmp_path: Path) -> None:
    printed = (ROOT / "README.md").read_text()
    (program,) = re.findall(r"^```python[^\n]*\n(.*?)^```$", printed, re.MULTILINE | re.DOTALL)
    kept = {key: each for key, each in os.environ.items() if not key.startswith("ACCOUNTANT_")}
    kept |= {"PYTHONPATH": str(ROOT), "XDG_DATA_HOME": str(tmp_path / "data")}
    found = [
        subprocess.run(
            [sys.executable, "-W", "error::UserWarning", "-c", program],
            cwd=tmp_path,
            env=kept,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(3)
    ]
    assert re.fullmatch(r"about \d+ people\n", found[0])
    assert len(set(found)) == 1
    with Accountant(f"sqlite:///{tmp_path / 'count.db'}") as ledger:
        view = ledger.dataset("census")
        assert view is not None
        (usage,) = ledger.usage("census")
        assert usage.granted == 1
