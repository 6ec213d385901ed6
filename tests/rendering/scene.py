"""Run what the demo of docker-compose.yml runs, without Docker, and draw its dashboards.

    python -m tests.rendering.scene [--minutes 10] [--out docs/pictures]

A healthy week on two workers: one budget runs low, which its owner is to notice, and all else is
calm. Takes Prometheus and Alertmanager from scripts/observability.sh.
"""

from __future__ import annotations

import argparse
import dataclasses
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from accountant.policy import Policy
from accountant.views.datasets import DatasetView
from streams.cli.demo import DATASETS, DemoRequest, week
from streams.cli.demo.teams import TEAMS
from streams.client import Accountant
from streams.testing import LocalBroker
from tests.observability.programs import Programs
from tests.observability.world import World, world
from tests.rendering.asking import ROOT
from tests.rendering.pictures import PICTURES, draw_all

# It has a horizon and two odometers: every panel of its dashboard has something to show.
DATASET = "census"
# The shortest horizon: some minutes of calm spending are a rate that it allows.
HORIZON = "P1D"
# What each dataset has spent at the end, as a part of its budget.
SPENT = {DATASET: 0.006, "clinic": 0.83, "shop": 0.38}
# What an open reservation of the dataset holds, likewise.
HELD = 0.25
# What fires then: pictures show a service that nobody needs to be called to.
ALERTS = {"PrivacyBudgetHalfUsed clinic", "PrivacyBudgetLow clinic"}
# The more requests a week has, the smaller each is: the first few of a long week are calm.
REQUESTS = {DATASET: 16_000, "clinic": 1_600, "shop": 1_600}
# Scrapes are more frequent here than in production; rates are shown as they are there.
SHOWN_S = 10


def view_of(ledger: Accountant, name: str) -> DatasetView:
    """Return what a ledger shows of a dataset that is open."""
    view = ledger.dataset(name)
    assert view is not None, name
    return view


def open_all(ledger: Accountant) -> None:
    """Open the demo's datasets, with limits that nobody reaches."""
    for opening in DATASETS:
        policy: Policy = opening.policy
        if opening.dataset == DATASET:
            policy = msgspec.structs.replace(policy, horizon=HORIZON)
        owner = ledger.as_owner(opening.by)
        owner.open(opening.dataset, policy, as_given=True, new=True)
        for team, names in TEAMS.items():
            for name in names:
                owner.set_member(opening.dataset, name, roles=("analyst",), team=team)
        owner.set_limit(opening.dataset, "team", "product", part="0.6", pace=("0.5", "P7D"))


def asks_of(dataset: str) -> Iterator[DemoRequest]:
    """Return a week's requests on a dataset."""
    return (ask for ask in week(REQUESTS[dataset]) if ask.dataset == dataset)


def use_calmly(scene: World, minutes: float) -> None:
    """Spend evenly until each dataset has spent its part, asking as the analysts of the demo do."""
    asks = {name: asks_of(name) for name in SPENT}
    started, seconds = time.monotonic(), minutes * 60
    with Accountant(f"http://{scene.gateway}") as ledger:
        open_all(ledger)
        # A session holds a part of the budget until it is settled.
        held = HELD * float(view_of(ledger, DATASET).budget["rho"])
        claim = {"type": "zcdp", "rho": f"{held:.6f}"}
        scene.begin(scene.reserve(claim, dataset=DATASET), dataset=DATASET)
        while (gone := (time.monotonic() - started) / seconds) < 1:
            for name, part in SPENT.items():
                before = HELD if name == DATASET else 0.0
                while view_of(ledger, name).spent_ratio < before + part * gone:
                    ask = next(asks[name])
                    ledger.ask(
                        ask.dataset,
                        ask.claim,
                        analyst=ask.analyst,
                        unit=ask.unit,
                        purpose=ask.purpose,
                    )
            time.sleep(1)


def firing(scene: World) -> set[str]:
    """Return the alerts that fire, each with its dataset."""
    found = scene.prometheus.instant('ALERTS{alertstate="firing"}')
    labels = [each["metric"] for each in found]
    return {f"{each['alertname']} {each.get('dataset', '')}".rstrip() for each in labels}


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
        times = 40
        pause = asked.minutes * 60 / times
        # Without a horizon nothing is said to burn too fast.
        settings = {"times": times, "pause": pause, "horizon": None}
        slow = threading.Thread(target=scene.use_slowly, kwargs=settings)
        slow.start()
        use_calmly(scene, asked.minutes)
        slow.join()
        alerts = firing(scene)
        if not alerts <= ALERTS:
            print(f"more fires than one budget that runs low: {sorted(alerts - ALERTS)}")
            return 1
        window = dataclasses.replace(scene.window(), scrape=SHOWN_S)
        return draw_all(scene.prometheus, window, asked.out, dataset=DATASET)


if __name__ == "__main__":
    sys.exit(main())
