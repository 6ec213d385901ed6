"""docs/how-to/dashboards.md explains every panel, and shows every dashboard."""

from __future__ import annotations

import re
import struct
from pathlib import Path

from tests.every_case import every_case
from tests.rendering.asking import NAMES, board, panels
from tests.rendering.pictures import PICTURES, WIDTH

OPENS = ("docs/how-to/dashboards.md",)

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "dashboards.md").read_text(encoding="utf-8")
HEADINGS = {"overview": "All datasets", "dataset": "One dataset", "service": "The service"}


def section(name):
    return PAGE.split(f"## {HEADINGS[name]}\n")[1].split("\n## ")[0]


def words(text):
    """The words of a title, without the variables."""
    return re.sub(r"\$\w+|[,;.]", " ", text).lower().split()


@every_case("name", NAMES)
def test_every_panel_is_explained(name):
    cells = [
        row.split("|")[1].lower() for row in section(name).splitlines() if row.startswith("| ")
    ]
    for panel in panels(board(name)):
        if panel["type"] == "text":
            continue
        wanted = words(panel["title"])
        assert any(set(wanted) <= set(words(cell)) for cell in cells), panel["title"]


@every_case("name", NAMES)
def test_every_dashboard_has_its_picture(name):
    assert f"](../pictures/{name}.png)" in section(name)
    png = (PICTURES / f"{name}.png").read_bytes()
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    assert width == WIDTH
    # A picture of another layout is one of another dashboard: run `make pictures`.
    rows = max(p["gridPos"]["y"] + p["gridPos"]["h"] for p in board(name)["panels"])
    assert height == rows * (30 + 8) + 8
