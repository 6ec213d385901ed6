"""The examples of sessions run as a person would run them, and pay for what they showed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from streams.client import Accountant, ResultStore

OPENS = ("examples/*",)
STARTS = ()

ROOT = Path(__file__).parents[2]
Run = Callable[[str], str]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/ledger.db"


@pytest.fixture
def run(tmp_path: Path, url: str) -> Run:
    def run(name: str) -> str:
        environment = os.environ | {
            "ACCOUNTANT_ANSWERS": f"{tmp_path}/answers.db",
            "ACCOUNTANT_URL": url,
            "PYTHONPATH": str(ROOT),
        }
        command = [sys.executable, str(ROOT / "examples" / name)]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return done.stdout

    return run


def steps(url: str, dataset: str) -> list[tuple[str, str | None]]:
    """Return the outcomes on a dataset after its openings, and the levels of settlements."""
    with Accountant(url) as ledger:
        return [
            (str(each.outcome), each.reservation and each.reservation.shown)
            for each in list(ledger.requests(dataset))[1:]
            if each.reason != "already_opened"
        ]


def answers(tmp_path: Path) -> list[tuple[str, object]]:
    """Return the stored answers of the only session, by level."""
    from streams.client.releases.codec import decode_result

    with ResultStore(tmp_path / "answers.db").transaction() as db:
        rows = db.execute("SELECT level, answer FROM shown ORDER BY number").fetchall()
    return [(level, decode_result(answer)) for level, answer in rows]


def test_an_early_stop_pays_for_the_last_variance(run: Run, url: str, tmp_path: Path) -> None:
    shown = run("early_stopping_count.py")
    assert run("early_stopping_count.py") == shown  # the stored answers, charged once
    lines = [
        re.fullmatch(r"variance (\d+): about (-?\d+) cases", each) for each in shown.split("\n")
    ]
    levels = [(match[1], int(match[2])) for match in lines if match]
    last, count = levels[-1]
    assert abs(count - 4286) < 10 * int(last) ** 0.5  # ten standard deviations never happen
    assert 4000000 > int(last) > 2500
    assert steps(url, "flu") == [("reserved", None), ("begun", None), ("settled", last)]
    spent = re.search(
        r"^spent: rho (0\.\d+); the whole session would have been 0\.0002$", shown, re.MULTILINE
    )
    assert spent is not None
    assert Fraction(spent[1]) == 1 / (2 * Fraction(last)) < Fraction(1, 5000)
    precision, total = Fraction(0), Fraction(0)
    for (level, _), (stored, answer) in zip(levels, answers(tmp_path), strict=True):
        assert stored == level
        assert isinstance(answer, Fraction)
        more = 1 / Fraction(level) - precision
        # Each level adds one integer, weighted by the precision that it adds.
        assert ((answer / Fraction(level) - total) / more).denominator == 1
        precision, total = precision + more, answer / Fraction(level)


def test_laplace_noise_reduction_pays_for_the_last_scale(run: Run, url: str) -> None:
    shown = run("laplace_noise_reduction.py")
    assert run("laplace_noise_reduction.py") == shown
    scales = re.findall(r"^scale (\d+): about (-?\d+) visits$", shown, re.MULTILINE)
    last, count = scales[-1]
    assert abs(int(count) - 2609) < 40 * int(last)  # 40 scales of noise never happen
    assert [scale for scale, _ in scales] == ["400", "200", "100", "50", "20"][: len(scales)]
    assert steps(url, "visits") == [("reserved", None), ("begun", None), ("settled", last)]
    with Accountant(url) as ledger:
        assert Fraction(str(ledger.dataset("visits").totals["epsilon"])) == Fraction(1, int(last))


def test_a_join_that_one_dataset_refuses_is_charged_to_none(run: Run, url: str) -> None:
    shown = run("join_two_datasets.py")
    first, second, *spent = shown.splitlines()
    match = re.fullmatch(r"month 5: about (\d+) patients are in both", first)
    assert match is not None
    assert abs(int(match[1]) - 1428) < 10 * 50
    assert second == "month 6: registry refused (exhausted)"
    assert spent == ["clinic: spent rho 0.0002", "registry: spent rho 0.0002"]
    full = [("reserved", None), ("begun", None), ("settled", None)]
    assert steps(url, "clinic") == [*full, ("reserved", None), ("voided", None)]
    assert steps(url, "registry") == [*full, ("refused", None)]
    assert run("join_two_datasets.py") == shown
