"""Release one differentially private count: ask first, run once, store before showing.

Counts the malignant tumours in scikit-learn's breast cancer data with OpenDP's integer
Laplace mechanism. The claim is OpenDP's own privacy map, rounded outward; the ledger decides.

    python examples/opendp_count.py --open          # opens the dataset, asks, releases
    python examples/opendp_count.py --id ID         # a retry: the stored answer, no new noise

Needs `pip install opendp scikit-learn`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from decimal import ROUND_CEILING, Decimal
from pathlib import Path

import opendp.prelude as dp
from sklearn.datasets import load_breast_cancer

from accountant.claims import Pure
from accountant.errors import BudgetError
from accountant.records import Decision
from accountant.records.outcomes import Reason
from accountant.times import uuid7
from streams.client import Accountant, Unanswered

DATASET = "breast-cancer"


def make_count(scale: float) -> dp.Measurement:
    """Return a noisy count of records; its input distance is records added or removed."""
    dp.enable_features("contrib")
    records = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    return dp.t.make_count(*records) >> dp.m.then_laplace(scale=scale)


def claim_of(measurement: dp.Measurement) -> Pure:
    """Return OpenDP's epsilon for one patient added or removed, rounded up to 12 decimals."""
    epsilon = Decimal(measurement.map(1))
    return Pure(epsilon=str(epsilon.quantize(Decimal("1e-12"), rounding=ROUND_CEILING)))


def answer_once(store: Path, request_id: str, measurement: dp.Measurement) -> int:
    """Return the answer stored under the id; run the mechanism only if there is none.

    The answer is on the disk before anybody sees it, so a crash can lose an answer that
    nobody saw, but never make two that somebody did.
    """
    path = store / f"{request_id}.txt"
    if not path.exists():
        data = load_breast_cancer()
        malignant = [1 for target in data.target if data.target_names[target] == "malignant"]
        new = path.with_suffix(f".{os.getpid()}.new")
        with new.open("w", encoding="utf-8") as file:
            file.write(str(measurement(malignant)))
            file.flush()
            os.fsync(file.fileno())
        # A link fails if another run was first: then its answer counts, not ours.
        with contextlib.suppress(FileExistsError):
            os.link(new, path)
        new.unlink()
    return int(path.read_text(encoding="utf-8"))


def decide(given: argparse.Namespace, claim: Pure, request_id: str) -> Decision:
    """Return the ledger's decision, its dataset opened first if that was asked for.

    Raises: BudgetError: there is no decision; the message says what to do.
    """
    with Accountant(given.url) as ledger:
        if given.open:
            policy = {"epsilon": "1", "delta": "1e-6", "unit": "patient"}
            ledger.open(DATASET, policy, by="hospital", reason="an example")
        reply = ledger.ask(
            DATASET,
            claim,
            analyst=given.analyst,
            unit="patient",
            purpose="count of malignant tumours",
            request_id=request_id,
        )
        return reply.decision


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--url", help="of the ledger; default ACCOUNTANT_URL or a local file")
    arguments.add_argument("--scale", type=float, default=20.0, help="of the noise, in patients")
    arguments.add_argument("--store", type=Path, default=Path("answers"), help="a directory")
    arguments.add_argument("--analyst", default="ana")
    arguments.add_argument("--id", help="of an earlier request, to retry it")
    arguments.add_argument("--open", action="store_true", help="open the dataset first")
    given = arguments.parse_args()

    measurement = make_count(given.scale)
    claim = claim_of(measurement)
    request_id = given.id or uuid7(time.time_ns() // 1_000_000, os.urandom(10))
    given.store.mkdir(parents=True, exist_ok=True)
    try:
        decision = decide(given, claim, request_id)
    except Unanswered as error:
        print(f"no decision: {error.why}; run it again with --id {request_id}", file=sys.stderr)
        return 2
    except BudgetError as error:
        print(f"no decision: {error}", file=sys.stderr)
        return 2
    print(f"request {request_id}: {decision.outcome} for epsilon {claim.epsilon}")
    first = decision.first
    if not decision.granted and not (first is not None and first.granted):
        print(f"not released: {decision.reason or decision.outcome}", file=sys.stderr)
        if decision.reason is Reason.UNKNOWN_DATASET:
            print(f"{DATASET} was never opened here: run it with --open", file=sys.stderr)
        if decision.fits:
            print(f"this would fit: {decision.fits}", file=sys.stderr)
        return 1
    count = answer_once(given.store, request_id, measurement)
    print(f"about {count} malignant tumours, noise of scale {given.scale:g}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
