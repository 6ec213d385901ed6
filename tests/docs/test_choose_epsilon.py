"""What the guide to choosing epsilon says of each epsilon is computed, rounded to what it shows."""

from __future__ import annotations

import math
import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "choose-epsilon.md"
ROW = re.compile(r"^\| ([\d.]+) \| ([\d.,]+) \| ([\d.]+) % \| ([\d.]+) % \|$", re.MULTILINE)


def as_shown(value: float, shown: str) -> bool:
    digits = len(shown.partition(".")[2])
    return f"{value:.{digits}f}" == shown.replace(",", "")


def test_factors_and_beliefs_follow_from_epsilon() -> None:
    rows = ROW.findall(PAGE.read_text(encoding="utf-8"))
    assert len(rows) == 7
    for epsilon, factor, most, least in rows:
        odds = math.exp(float(epsilon))
        assert as_shown(odds, factor), epsilon
        assert as_shown(100 * odds / (1 + odds), most), epsilon
        assert as_shown(100 / (1 + odds), least), epsilon


def test_a_wrong_number_is_noticed() -> None:
    assert as_shown(2.718, "2.72")
    assert not as_shown(2.718, "2.71")
