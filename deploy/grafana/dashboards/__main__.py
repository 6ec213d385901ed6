"""Write the dashboards' JSON: `python -m deploy.grafana.dashboards [DIRECTORY]`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from deploy.grafana.dashboards.board import Board
from deploy.grafana.dashboards.dataset import dataset
from deploy.grafana.dashboards.overview import overview
from deploy.grafana.dashboards.service import service

WRITTEN: Final = Path(__file__).parents[1] / "json"
BOARDS: Final = {"overview": overview, "dataset": dataset, "service": service}


def text(board: Board) -> str:
    """Return a dashboard as Grafana reads it from a file: schema v1, the same every time."""
    return json.dumps(board.build(), cls=JSONEncoder, indent=2, sort_keys=True) + "\n"


def main() -> None:
    """Write every dashboard to the directory in the arguments, or to the committed one."""
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else WRITTEN
    directory.mkdir(parents=True, exist_ok=True)
    for name, make in BOARDS.items():
        (directory / f"{name}.json").write_text(text(make()), encoding="utf-8")
        print(directory / f"{name}.json")


if __name__ == "__main__":
    main()
