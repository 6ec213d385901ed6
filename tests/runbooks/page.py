"""The blocks of docs/runbooks.md, with the mark of each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

OPENS = ("docs/runbooks.md", "deploy/prometheus/rules/*")

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs" / "runbooks.md").read_text(encoding="utf-8")
BOX: Final = "Before-0"
"""The block that sets the variables of all others."""
_FENCE: Final = re.compile(
    r"^(?:<!-- (?P<mark>[^\n]*) -->\n)?```(?P<kind>[^\n]*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_WITH_PROMETHEUS: Final = re.compile(r"\b(?:promtool|amtool)\b")


@dataclass(frozen=True)
class Block:
    """One block of the page.

    Attributes:
        name: its entry and number, such as `PrivacyLagHigh-0`.
        mark: `run`, or `elsewhere: WHY`; "" without one.
        text: its commands, as printed.
    """

    name: str
    mark: str
    text: str

    @property
    def entry(self) -> str:
        """The first word of the entry's title."""
        return self.name.rpartition("-")[0]

    @property
    def needs_prometheus(self) -> bool:
        """Whether it asks Prometheus or Alertmanager."""
        return _WITH_PROMETHEUS.search(self.text) is not None

    @property
    def needs_kafka(self) -> bool:
        """Whether it is about topics."""
        return "accountant topics" in self.text

    @property
    def dataset(self) -> str:
        """The dataset that its test uses; nothing else changes it."""
        return f"statistics.{self.name}"

    @property
    def reader(self) -> str:
        """Whose token its reader has: an owner's or an administrator's."""
        is_operator = self.entry in OPERATORS or self.entry == "Before"
        return "root" if is_operator or "--as-administrator" in self.text else "olga"


def blocks_of(page: str) -> list[Block]:
    """Return the blocks of a page, in order."""
    found = []
    for entry in re.split(r"^## ", page, flags=re.MULTILINE):
        title = entry.split()[0].strip("#") or "top"
        for number, match in enumerate(_FENCE.finditer(entry)):
            found.append(Block(f"{title}-{number}", match["mark"] or "", match["text"]))
    return found


def _operators() -> frozenset[str]:
    """Return the alerts for operators; the others are for owners."""
    rules = yaml.safe_load((ROOT / "deploy/prometheus/rules/alerts.yml").read_text("utf-8"))
    return frozenset(
        rule["alert"]
        for group in rules["groups"]
        for rule in group["rules"]
        if rule["labels"]["audience"] == "operator"
    )


OPERATORS: Final = _operators()
BLOCKS: Final = blocks_of(PAGE)
RUN: Final = [each for each in BLOCKS if each.mark == "run" and each.name != BOX]


def box() -> str:
    """Return the block that sets the variables."""
    return next(each.text for each in BLOCKS if each.name == BOX)


def variables() -> frozenset[str]:
    """Return the names of the variables that the box sets."""
    return frozenset(re.findall(r"\b([A-Z_]+)=", box()))
