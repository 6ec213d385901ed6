"""The example is run as a person would run it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from streams.client import Accountant

EXAMPLE = Path(__file__).parents[2] / "examples" / "opendp_count.py"
OLD_ID = "01a2002c-8e12-7eeb-8741-0a70e40eebf2"


@pytest.fixture
def run(tmp_path):
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        url = f"sqlite:///{tmp_path}/ledger.db"
        command = [sys.executable, str(EXAMPLE), "--url", url, "--store", str(tmp_path / "answers")]
        return subprocess.run(
            [*command, *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            cwd=EXAMPLE.parents[1],
        )

    return run


def log(tmp_path: Path) -> list[dict]:
    command = [sys.executable, "-m", "streams.cli", "log", "export"]
    url = f"sqlite:///{tmp_path}/ledger.db"
    done = subprocess.run(
        [*command, "--url", url],
        capture_output=True,
        text=True,
        check=True,
        cwd=EXAMPLE.parents[1],
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_granted_count_is_released_once_and_a_retry_serves_the_stored_answer(run, tmp_path):
    first = run("--open")
    assert first.returncode == 0, first.stderr
    request_id = re.search(r"request (\S+): granted", first.stdout)[1]
    answer = re.search(r"about (-?\d+) malignant", first.stdout)[1]
    assert abs(int(answer) - 212) < 20 * 40  # 212 patients; 40 scales of noise never happen

    again = run("--id", request_id)
    assert again.returncode == 0, again.stderr
    assert "repeated" in again.stdout
    assert f"about {answer} malignant" in again.stdout
    assert [d["outcome"] for d in log(tmp_path)] == ["genesis", "opened", "granted", "repeated"]


def test_the_claim_is_not_below_the_privacy_map(run, tmp_path):
    assert run("--open", "--scale", "6.0").returncode == 0
    granted = next(d for d in log(tmp_path) if d["outcome"] == "granted")
    epsilon = Decimal(granted["request"]["claim"]["epsilon"])
    assert Fraction(1, 6) <= Fraction(epsilon) <= Fraction(1, 6) + Fraction(2, 10**12)


def test_a_refusal_releases_nothing_and_says_what_would_fit(run, tmp_path):
    refused = run("--open", "--scale", "0.5")
    assert refused.returncode == 1
    assert "exhausted" in refused.stderr
    assert "this would fit: pure:" in refused.stderr
    assert not list((tmp_path / "answers").iterdir())


def test_a_dataset_that_was_never_opened_says_how_to_open_it(run, tmp_path):
    with Accountant(f"sqlite:///{tmp_path}/ledger.db") as ledger:
        ledger.open("census", {"epsilon": "1", "delta": "1e-6"}, by="registrar")
    refused = run()
    assert refused.returncode == 1
    assert "unknown_dataset" in refused.stderr
    assert "run it with --open" in refused.stderr
    assert run("--open").returncode == 0


@pytest.mark.parametrize("more", [(), ("--open",)])
def test_a_ledger_that_does_not_answer_is_one_line_with_the_id_to_ask_again(run, tmp_path, more):
    done = run("--url", "http://127.0.0.1:9", "--id", OLD_ID, *more)
    assert (done.returncode, done.stdout) == (2, "")
    why = "no decision: http://127.0.0.1:9 does not answer: "
    assert re.fullmatch(f"{why}.*; run it again with --id {OLD_ID}\n", done.stderr)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ((), "no such ledger: "),
        (("--url", "nonsense"), "ACCOUNTANT_URL: url must begin with"),
        (("--open", "--analyst", "two words"), "analyst must be"),
    ],
)
def test_what_somebody_must_mend_is_one_line_too(run, more, said):
    done = run(*more)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(f"no decision: .*{said}.*\n", done.stderr)


def test_what_it_stores_is_no_file_of_the_repository():
    ignored = (EXAMPLE.parents[1] / ".gitignore").read_text(encoding="utf-8").splitlines()
    (default,) = re.findall(r'"--store".*default=Path\("(\w+)"\)', EXAMPLE.read_text("utf-8"))
    assert f"{default}/" in ignored
