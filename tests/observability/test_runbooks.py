"""Every command of docs/runbooks.md is run, on a real ledger that is being watched."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams.client import Accountant
from tests.observability.programs import Programs, Watch, until
from tests.observability.test_chain import serving

PAGE = (Path(__file__).parents[2] / "docs" / "runbooks.md").read_text(encoding="utf-8")
ENTRIES = re.split(r"^## ", PAGE, flags=re.MULTILINE)


def blocks(kind: str) -> dict[str, str]:
    """Return the page's blocks of one kind, by entry and number."""
    return {
        f"{entry.split()[0].strip('#') or 'top'}-{number}": block
        for entry in ENTRIES
        for number, block in enumerate(re.findall(rf"```{kind}\n(.*?)```", entry, re.DOTALL))
    }


COMMANDS = blocks("sh")


def entry_of(name: str) -> str:
    """Return the entry of a block. Its blocks share a dataset: one pauses it, one resumes it."""
    return name.rpartition("-")[0]


@pytest.fixture(scope="module")
def watched(
    programs: Programs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """A ledger with a dataset for each entry, and the environment that the page asks for."""
    home = tmp_path_factory.mktemp("runbooks")
    (home / "watch").mkdir()
    assert shutil.which("curl"), "the runbook's commands need curl: install it"
    with serving(home) as address, Accountant(address) as ledger:
        entries = dict.fromkeys(map(entry_of, COMMANDS))
        for name in entries:
            policy = {"epsilon": "1", "delta": "1e-6", "horizon": "P30D"}
            ledger.open(f"statistics.{name}", policy, by="owner", as_given=True)
            ledger.ask(f"statistics.{name}", "pure:0.01", analyst="ana")
            ledger.ask(f"statistics.{name}", "pure:5", analyst="ana")  # refused
        helped = f"statistics.{next(iter(entries))}"
        ledger.set_member(helped, "ana", roles=["analyst"], by="root", as_administrator=True)
        jobs = {"accountant-serve": [address.removeprefix("http://")]}
        with Watch(programs, home / "watch", jobs, interval=5) as watch:
            many = len(entries)
            recorded = "count(dataset:privacy_filter_burn:ratio5m)"
            until("every dataset recorded", lambda: watch.value(recorded) == many)
            tools = [str(programs.where), str(Path(sys.executable).parent), os.environ["PATH"]]
            yield {
                **os.environ,
                "PATH": os.pathsep.join(tools),
                "USER": "operator",
                "OWNER": "owner",
                "ACCOUNTANT_URL": f"sqlite:///{home / 'ledger.db'}",
                "SERVER": address,
                "WORKER": address,
                "PROMETHEUS": watch.prometheus,
                "ALERTMANAGER": watch.alertmanager,
                "PARTITION": "0",
            }


def run(block: str, environment: dict[str, str]) -> str:
    """Return a block's output; each of its commands must exit with 0."""
    printed = ""
    for command in block.strip().splitlines():
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", command],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        printed += done.stdout
    return printed


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_of_the_runbook_works(watched: dict[str, str], name: str) -> None:
    printed = run(COMMANDS[name], {**watched, "DATASET": f"statistics.{entry_of(name)}"})
    # Of a healthy ledger there is nothing to list of errors and fencings.
    quiet = {"PrivacyInternalError-0", "PrivacyFencingStorm-0"}
    assert printed.strip() or name in quiet
