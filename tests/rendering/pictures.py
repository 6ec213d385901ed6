"""Draw the dashboards with what a running Prometheus answers.

    python -m tests.rendering.pictures --prometheus http://127.0.0.1:9090 --last 30m
    python -m tests.rendering.scene        starts all that is drawn, and then draws it

Needs node, npm and Chromium. Grafana's packages are installed once, in the versions that
package.json names, into a directory of this user's cache.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.rendering.asking import (
    BOARDS,
    NAMES,
    ROOT,
    Prometheus,
    Window,
    answer,
    board,
    panels,
    variables,
)

OPENS = ("tests/rendering/*", "docs/pictures/*")
STARTS = ()

HERE = Path(__file__).parent
PICTURES = ROOT / "docs" / "pictures"
WIDTH = 1500
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Missing(Exception):
    """A program that drawing needs is not installed; the message says which and how."""


def program(*names: str, package: str) -> str:
    """Return the path of the first of these programs.

    Raises: Missing
    """
    for name in names:
        found = shutil.which(name)
        if found:
            return found
    raise Missing(f"drawing dashboards needs {names[0]}: apt-get install {package}")


def modules() -> Path:
    """Return where Grafana's packages are, installing them the first time.

    Raises: Missing; CalledProcessError: npm cannot install them.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    directory = cache / "streaming-privacy-accountant" / "rendering"
    wanted = (HERE / "package.json").read_bytes()
    done = directory / "installed.json"
    if not done.exists() or done.read_bytes() != wanted:
        directory.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", ".npmrc"):
            shutil.copy(HERE / name, directory / name)
        npm = program("npm", package="npm")
        print("downloading Grafana's packages, once (some minutes)", file=sys.stderr)
        # What packages would run at their installation is not needed to draw.
        command = [npm, "install", "--ignore-scripts", "--no-package-lock", "--loglevel=error"]
        subprocess.run(command, cwd=directory, check=True, stdout=subprocess.DEVNULL)
        done.write_bytes(wanted)
    return directory / "node_modules"


def page() -> Path:
    """Return where the page and its tools stand: beside the packages, to find them."""
    place = modules().parent / "page"
    place.mkdir(exist_ok=True)
    for file in (*HERE.glob("*.ts*"), *HERE.glob("*.mjs")):
        shutil.copy(file, place / file.name)
    return place


def with_answers(name: str, source: Prometheus, window: Window, **chosen: str) -> dict[str, Any]:
    """Return a dashboard with the answers to all its queries."""
    dashboard = board(name)
    values = variables(dashboard, source, **chosen)
    answers = {
        panel["id"]: [
            {"target": target, "result": answer(target, source, values, window)}
            for target in panel["targets"]
        ]
        for panel in panels(dashboard)
        if panel.get("targets")
    }
    return {
        "dashboard": dashboard,
        "answers": answers,
        "variables": values,
        "from": window.start,
        "to": window.end,
        "steps": dict.fromkeys(answers, window.step),
        "width": WIDTH,
        "theme": "light",
    }


def draw(data: dict[str, Any], out: Path) -> dict[str, str]:
    """Draw a dashboard into a PNG file; return what became of each panel, by its id.

    Raises: Missing; CalledProcessError: the page could not be drawn at all.
    """
    chromium = program("chromium", "chromium-browser", "google-chrome", package="chromium")
    node = program("node", package="nodejs")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "given.json"
        path.write_text(json.dumps(data), encoding="utf-8")
        command = [node, str(page() / "draw.mjs"), chromium, str(path), str(out)]
        drawn = subprocess.run(command, check=False, capture_output=True, text=True)
    if not drawn.stdout.strip():
        raise subprocess.CalledProcessError(drawn.returncode, command, drawn.stdout, drawn.stderr)
    sys.stderr.write(drawn.stderr)
    return dict(json.loads(drawn.stdout.splitlines()[-1]))


def check_schema() -> None:
    """Compare the dashboards with the types that Grafana publishes.

    Raises: Missing; CalledProcessError: they differ; where is on standard error.
    """
    paths = [str(BOARDS / f"{name}.json") for name in NAMES]
    command = [program("node", package="nodejs"), str(page() / "schema.mjs"), *paths]
    subprocess.run(command, check=True)


def draw_all(source: Prometheus, window: Window, out: Path = PICTURES, **chosen: str) -> int:
    """Draw every dashboard into a directory; return how many panels could not be drawn.

    Args:
        chosen: values of variables, where they are not to be the first or all.
    """
    check_schema()
    out.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in NAMES:
        own = chosen if name == "dataset" else {}
        drawn = draw(with_answers(name, source, window, **own), out / f"{name}.png")
        bad = {panel: what for panel, what in drawn.items() if what != "drawn"}
        # A healthy service has no faults to draw.
        failed += sum(what != "no data" for what in bad.values())
        print(f"{out / name}.png: {len(drawn) - len(bad)} of {len(drawn)} panels", bad or "")
    return failed


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw every dashboard; return how many panels could not be drawn."""
    parser = argparse.ArgumentParser(prog="python -m tests.rendering.pictures")
    parser.add_argument("--prometheus", default="http://127.0.0.1:9090", help="its address")
    parser.add_argument("--last", default="30m", help="the time shown, such as 30m, 6h or 2d")
    parser.add_argument("--scrape", type=float, default=10, help="its scrape interval, seconds")
    parser.add_argument("--dataset", help="of the dashboard of one dataset; default the first")
    parser.add_argument("--out", type=Path, default=PICTURES, help="directory of the pictures")
    asked = parser.parse_args(arguments)
    end = time.time()
    last = float(asked.last[:-1]) * _SECONDS[asked.last[-1]]
    window = Window(start=end - last, end=end, scrape=asked.scrape)
    chosen = {"dataset": asked.dataset} if asked.dataset else {}
    return draw_all(Prometheus(asked.prometheus), window, asked.out, **chosen)


if __name__ == "__main__":
    sys.exit(main())
