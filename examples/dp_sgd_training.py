"""Train a classifier with DP-SGD: the claim is dp-accounting's event of the whole training.

Needs the extra `dp-accounting`. ACCOUNTANT_URL names the ledger; by default it is a
file in this directory.
"""

import dp_accounting as dpa
import numpy as np
from sklearn.datasets import load_breast_cancer

from streams import Accountant
from streams.engines.dp_accounting import event_claim

NOISE, RATE, STEPS, PATIENTS = 2.0, 0.1, 100, 500  # PATIENTS: a public estimate
x, y = load_breast_cancer(return_X_y=True)
x /= np.linalg.norm(x, axis=1, keepdims=True)  # no patient's gradient is longer than 1


def train() -> list[float]:
    rng, weights = np.random.default_rng(), np.zeros(x.shape[1])  # in production: an engine's noise
    for _ in range(STEPS):
        batch = rng.random(len(x)) < RATE
        slope = x[batch].T @ (1 / (1 + np.exp(-x[batch] @ weights)) - y[batch])
        weights -= 5 * (slope + rng.normal(scale=NOISE, size=len(weights))) / (RATE * PATIENTS)
    return weights.tolist()


step = dpa.PoissonSampledDpEvent(RATE, dpa.GaussianDpEvent(NOISE))
claim = event_claim(dpa.SelfComposedDpEvent(step, STEPS), unit="patient")
with Accountant(analyst="ana") as ledger:
    policy = {"filter": "renyi", "order": "6", "epsilon": "6", "delta": "1e-6", "unit": "patient"}
    policy["most_per_request"] = "1"  # one training takes a third of it
    ledger.as_owner("hospital").open("tumour-training", policy)  # does nothing if it is open
    weights = ledger.release("tumour-training", claim, train, once="first-training")
    print(f"trained: {weights[:3]} ...")
