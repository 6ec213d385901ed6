"""The examples run as a person would run them, each on its own ledger."""

from __future__ import annotations

import io
import json
import os
import re
import runpy
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pytest

from tests.forks import commands
from tests.patience import PATIENCE_S

OPENS = ("examples/*", "docs/how-to/engines.md")
STARTS = ()

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Runs:
    """Runs programs in a directory of this test, where the ledger and the answers go."""

    directory: Path

    def environment(self, answers: str) -> dict[str, str]:
        return os.environ | {
            "ACCOUNTANT_ANSWERS": f"{self.directory}/{answers}.db",
            "ACCOUNTANT_URL": f"sqlite:///{self.directory}/ledger.db",
            "XDG_DATA_HOME": str(self.directory),
            "PYTHONPATH": str(ROOT),
        }

    def __call__(
        self, *command: str, check: bool = True, answers: str = "answers"
    ) -> subprocess.CompletedProcess[str]:
        """Run Python in a process of its own."""
        return subprocess.run(
            [sys.executable, *command],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=check,
            cwd=self.directory,
            env=self.environment(answers),
        )

    def run_in_process(self, name: str, answers: str = "answers") -> str:
        """Run an example in this process, which need not import its engine again."""
        printed = io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed):
            for variable, value in self.environment(answers).items():
                patch.setenv(variable, value)
            patch.chdir(self.directory)
            runpy.run_path(example(name), run_name="__main__")
        return printed.getvalue()

    def command(self, *words: str) -> str:
        """Run `accountant`, and return what it prints."""
        env = self.environment("answers")
        done = commands.run(*words, cwd=self.directory, env=env, text=True)
        assert done.returncode == 0, done.stderr
        return str(done.stdout)


@pytest.fixture
def run(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


def granted(run) -> list[dict]:
    decisions = [json.loads(line) for line in run.command("log", "export").splitlines()]
    return [each["request"] for each in decisions if each["outcome"] == "granted"]


def example(name: str) -> str:
    return str(ROOT / "examples" / name)


def test_the_page_of_engines_has_a_program_that_runs(run):
    page = (ROOT / "docs" / "how-to" / "engines.md").read_text(encoding="utf-8")
    program = re.findall(r"^```python\n(import.*?)^```", page, re.MULTILINE | re.DOTALL)[0]
    run.command("dataset", "open", "census", "--epsilon", "1", "--delta", "1e-6")
    shown = run("-c", f"data = [1] * 1000\n{program}print(result)").stdout
    assert abs(int(shown) - 1000) < 20 * 40  # 40 scales of noise never happen
    (request,) = granted(run)
    assert Fraction(1, 20) <= Fraction(request["claim"]["epsilon"]) < Fraction(51, 1000)


def test_diffprivlib_asks_before_each_mean(run):
    for _ in range(2):
        assert "the mean radius is about" in run.run_in_process("diffprivlib_mean.py")
    first, second = granted(run)
    assert first["claim"] == second["claim"]
    assert (first["unit"], first["neighbours"]) == ("patient", "replace")
    assert Fraction(0.1) <= Fraction(first["claim"]["epsilon"]) < Fraction("0.1000000001")


def test_training_is_claimed_as_all_of_its_steps(run):
    assert run.run_in_process("dp_sgd_training.py").startswith("trained: [")
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
        run.run_in_process("dp_sgd_training.py", answers=person)
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
    shown = [run.run_in_process("opendp_count.py", answers=each) for each in "ab"]
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
    names = ("opendp_count.py", "diffprivlib_mean.py", "dp_sgd_training.py")
    for name in names:
        assert run(example(name)).stdout
    for name in names:
        assert run.run_in_process(name)
    assert len(granted(run)) == 4  # a mean has no name, and is drawn again
