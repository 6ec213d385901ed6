"""The examples run as a person would run them, each on its own ledger."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

OPENS = ("examples/*", "docs/how-to/engines.md")
STARTS = ()

ROOT = Path(__file__).parents[3]


@pytest.fixture
def run(tmp_path):
    def run(
        *command: str, check: bool = True, answers: str = "answers"
    ) -> subprocess.CompletedProcess[str]:
        """Run Python in a directory of this test, where the ledger and the answers go."""
        environment = os.environ | {
            "ACCOUNTANT_ANSWERS": f"{tmp_path}/{answers}.db",
            "ACCOUNTANT_URL": f"sqlite:///{tmp_path}/ledger.db",
            "XDG_DATA_HOME": str(tmp_path),
            "PYTHONPATH": str(ROOT),
        }
        return subprocess.run(
            [sys.executable, *command],
            capture_output=True,
            text=True,
            timeout=120,
            check=check,
            cwd=tmp_path,
            env=environment,
        )

    return run


def granted(run) -> list[dict]:
    log = run("-m", "streams.cli", "log", "export").stdout.splitlines()
    decisions = [json.loads(line) for line in log]
    return [each["request"] for each in decisions if each["outcome"] == "granted"]


def example(name: str) -> str:
    return str(ROOT / "examples" / name)


def test_the_page_of_engines_has_a_program_that_runs(run):
    page = (ROOT / "docs" / "how-to" / "engines.md").read_text(encoding="utf-8")
    program = re.findall(r"^```python\n(import.*?)^```", page, re.MULTILINE | re.DOTALL)[0]
    run("-m", "streams.cli", "dataset", "open", "census", "--epsilon", "1", "--delta", "1e-6")
    shown = run("-c", f"data = [1] * 1000\n{program}print(result)").stdout
    assert abs(int(shown) - 1000) < 20 * 40  # 40 scales of noise never happen
    (request,) = granted(run)
    assert Fraction(1, 20) <= Fraction(request["claim"]["epsilon"]) < Fraction(51, 1000)


def test_diffprivlib_asks_before_each_mean(run):
    for _ in range(2):
        assert "the mean radius is about" in run(example("diffprivlib_mean.py")).stdout
    first, second = granted(run)
    assert first["claim"] == second["claim"]
    assert (first["unit"], first["neighbours"]) == ("patient", "replace")
    assert Fraction(0.1) <= Fraction(first["claim"]["epsilon"]) < Fraction("0.1000000001")


def test_training_is_claimed_as_all_of_its_steps(run):
    assert run(example("dp_sgd_training.py")).stdout.startswith("trained: [")
    (request,) = granted(run)
    assert (request["unit"], request["neighbours"]) == ("patient", "add_remove")
    assert request["claim"] == {
        "type": "repeat",
        "times": 100,
        "claim": {
            "type": "subsampled_gaussian",
            "sigma": "2",
            "sensitivity": "1",
            "rate": request["claim"]["claim"]["rate"],
        },
    }
    assert Fraction(0.1) <= Fraction(request["claim"]["claim"]["rate"]) < Fraction("0.1000000001")


def test_a_training_above_the_budget_does_not_run(run):
    for person in ("ana", "bob", "eve"):
        run(example("dp_sgd_training.py"), answers=person)
    refused = run(example("dp_sgd_training.py"), check=False)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "NotGranted: tumour-training not granted: exhausted" in refused.stderr
    assert len(granted(run)) == 3


@pytest.mark.smartnoise
def test_a_query_is_claimed_as_its_noisy_columns(run):
    shown = run(example("smartnoise_query.py")).stdout
    assert "malignant: a mean radius of about" in shown
    (request,) = granted(run)
    assert (request["unit"], request["neighbours"]) == ("patient", "add_remove")
    kinds = [part["type"] for part in request["claim"]["claims"]]
    assert sorted(kinds) == ["approximate", "pure", "pure"]


def test_a_count_of_opendp_is_claimed_as_its_map(run):
    shown = [run(example("opendp_count.py"), answers=each).stdout for each in "ab"]
    assert all(each.startswith("about ") for each in shown)
    answers = [int(each.split()[1]) for each in shown]
    assert all(abs(answer - 212) < 20 * 40 for answer in answers)  # 40 scales never happen
    requests = granted(run)
    assert len(requests) == 2
    for request in requests:
        assert (request["unit"], request["neighbours"]) == ("patient", "add_remove")
        epsilon = Fraction(request["claim"]["epsilon"])
        assert Fraction(1, 20) <= epsilon < Fraction(1, 20) + Fraction(1, 10**12)


def test_the_examples_run_one_after_the_other_in_one_directory_however_often(run):
    for _ in range(2):
        for name in ("opendp_count.py", "diffprivlib_mean.py", "dp_sgd_training.py"):
            assert run(example(name)).stdout
    assert len(granted(run)) == 4  # a mean has no name, and is drawn again
