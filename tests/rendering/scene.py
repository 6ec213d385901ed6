"""Run what the demo of docker-compose.yml runs, without Docker, and draw its dashboards.

    python -m tests.rendering.scene [--minutes 10] [--out docs/pictures]

A week of requests on two workers; some garbage, and an owner that is fenced, on the way. Takes
Prometheus and Alertmanager from scripts/observability.sh.
"""

from __future__ import annotations

import argparse
import dataclasses
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from streams.testing import LocalBroker
from tests.observability.programs import Programs
from tests.observability.world import world
from tests.rendering.asking import ROOT
from tests.rendering.pictures import PICTURES, draw_all

# It has a horizon and two odometers: every panel of its dashboard has something to show.
DATASET = "census"
# Scrapes are more frequent here than in production; rates are shown as they are there.
SHOWN_S = 10
OWNER = "registrar"
# Part of the time at which it gets a pace.
PACED = 0.1
# Parts of the time at which something goes wrong.
GARBAGE, FENCED = 0.45, 0.6


def main() -> int:
    """Run and draw; return how many panels could not be drawn."""
    parser = argparse.ArgumentParser(prog="python -m tests.rendering.scene")
    parser.add_argument("--minutes", type=float, default=10, help="how long the week takes")
    parser.add_argument("--out", type=Path, default=PICTURES, help="directory of the pictures")
    asked = parser.parse_args()
    script = ["sh", str(ROOT / "scripts" / "observability.sh")]
    found = subprocess.run(script, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    with (
        tempfile.TemporaryDirectory(prefix="accountant-scene-") as home,
        LocalBroker() as broker,
        world(broker, "accountant", Programs(Path(found)), Path(home)) as scene,
    ):
        seconds = asked.minutes * 60
        pause = seconds / 40
        load = threading.Thread(target=scene.load, args=(asked.minutes,))
        slow = threading.Thread(target=scene.use_slowly, kwargs={"times": 40, "pause": pause})
        load.start()
        slow.start()
        time.sleep(seconds * PACED)
        scene.set_pace(DATASET, by=OWNER)
        time.sleep(seconds * (GARBAGE - PACED))
        scene.send_garbage()
        time.sleep(seconds * (FENCED - GARBAGE))
        scene.fence(0)
        load.join()
        slow.join()
        window = dataclasses.replace(scene.window(), scrape=SHOWN_S)
        return draw_all(scene.prometheus, window, asked.out, dataset=DATASET)


if __name__ == "__main__":
    sys.exit(main())
