"""Run a ledger with Prometheus and Alertmanager beside it, as deployed, and print the alerts.

Needs no Docker and no root: `make observe` hands it the programs that scripts/observability.sh
unpacks. Everything is kept in a directory that is deleted at the end, and listens on
127.0.0.1 only. Ends with Ctrl-C.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from deploy.compose.webhook import Receiver  # noqa: E402 - after the path above

PORTS = {"LEDGER": 8000, "PROMETHEUS": 9090, "ALERTMANAGER": 9093, "WEBHOOK": 9095}
WAIT_S = 60.0


def address(name: str) -> str:
    """Return where a part listens; NAME_PORT in the environment chooses another port."""
    return f"127.0.0.1:{os.environ.get(f'{name}_PORT', PORTS[name])}"


def configure(home: Path) -> None:
    """Write the deployed configuration, with these addresses."""
    prometheus = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())
    prometheus["rule_files"] = [str(ROOT / "deploy/prometheus/rules/*.yml")]
    targets = [{"targets": [address("ALERTMANAGER")]}]
    prometheus["alerting"]["alertmanagers"] = [{"static_configs": targets}]
    ledger = [{"targets": [address("LEDGER")]}]
    prometheus["scrape_configs"] = [{"job_name": "accountant-serve", "static_configs": ledger}]
    (home / "prometheus.yml").write_text(yaml.safe_dump(prometheus))
    alertmanager = (ROOT / "deploy/alertmanager/alertmanager.yml").read_text()
    alertmanager = alertmanager.replace("webhook:9095", address("WEBHOOK"))
    (home / "alertmanager.yml").write_text(alertmanager)


def commands(programs: Path, home: Path) -> dict[str, list[str]]:
    """Return what to run, by the path that tells that it is ready."""
    alertmanager = programs / "prometheus-alertmanager"
    if not alertmanager.is_file():
        alertmanager = programs / "alertmanager"
    ledger = Path(sys.executable).with_name("accountant")
    return {
        f"http://{address('ALERTMANAGER')}/-/ready": [
            str(alertmanager),
            f"--config.file={home / 'alertmanager.yml'}",
            f"--storage.path={home / 'alertmanager'}",
            f"--web.listen-address={address('ALERTMANAGER')}",
            "--cluster.listen-address=",
        ],
        f"http://{address('PROMETHEUS')}/-/ready": [
            str(programs / "prometheus"),
            f"--config.file={home / 'prometheus.yml'}",
            f"--storage.tsdb.path={home / 'data'}",
            f"--web.listen-address={address('PROMETHEUS')}",
            "--enable-feature=exemplar-storage",
        ],
        f"http://{address('LEDGER')}/readyz": [
            str(ledger),
            "serve",
            f"--url=sqlite:///{home / 'ledger.db'}",
            f"--port={address('LEDGER').partition(':')[2]}",
        ],
    }


@contextlib.contextmanager
def running(programs: Path, home: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run everything until the block ends."""
    with contextlib.ExitStack() as stack:
        started = []
        for ready, command in commands(programs, home).items():
            log = home / f"{Path(command[0]).name}.log"
            out = stack.enter_context(log.open("wb"))
            # From where usr/ was unpacked: Debian's Alertmanager reads its templates there.
            where = programs.parents[1]
            process = subprocess.Popen(command, stdout=out, stderr=out, cwd=where)  # noqa: S603
            started.append(process)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            if not answers(ready, process):
                sys.exit(f"{Path(command[0]).name} does not answer:\n{log.read_text()[-2000:]}")
        yield started


def answers(url: str, process: subprocess.Popen[bytes]) -> bool:
    """Return whether a program becomes ready before it ends or time is up."""
    until = time.monotonic() + WAIT_S
    while process.poll() is None and time.monotonic() < until:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5):  # noqa: S310
            return True
        time.sleep(0.1)
    return False


def main() -> int:
    """Run until interrupted, or until a program ends."""
    programs = Path(os.environ["OBSERVABILITY_BIN"])
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    host, port = address("WEBHOOK").split(":")
    with (
        tempfile.TemporaryDirectory(prefix="accountant-observe-") as made,
        ThreadingHTTPServer((host, int(port)), Receiver) as webhook,
    ):
        home = Path(made)
        configure(home)
        threading.Thread(target=webhook.serve_forever, daemon=True).start()
        try:
            with running(programs, home) as started:
                say()
                while all(process.poll() is None for process in started):
                    time.sleep(0.5)
        except KeyboardInterrupt:
            return 0
        finally:
            webhook.shutdown()
    sys.stderr.write("one of the programs has ended\n")
    return 1


def say() -> None:
    """Tell what to try."""
    sys.stdout.write(
        f"""ledger http://{address("LEDGER")}, Prometheus http://{address("PROMETHEUS")}, \
Alertmanager http://{address("ALERTMANAGER")}

In another terminal, to use a budget up and see the alert (40 s at most; as one block):

    export ACCOUNTANT_URL=http://{address("LEDGER")}
    .venv/bin/accountant dataset open statistics.census --filter basic --epsilon 1 \\
        --most-per-request 1
    while .venv/bin/accountant ask statistics.census pure:0.25 --analyst ana; do :; done
    until curl -s http://{address("ALERTMANAGER")}/api/v2/alerts | \\
        grep PrivacyBudgetExhausted; do sleep 1; done

Then close the dataset, which ends the alert (within another minute):

    .venv/bin/accountant dataset close statistics.census --yes

Alerts, as they are delivered to the webhook:

"""
    )
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
