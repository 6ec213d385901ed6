"""Release a count with OpenDP: the measurement's privacy map is the claim.

Needs the extra `opendp`, and scikit-learn. ACCOUNTANT_URL names the ledger; by default it is a
file in this directory.
"""

import opendp.prelude as dp
from sklearn.datasets import load_breast_cancer

from streams import Accountant
from streams.engines.opendp import opendp_claim

dp.enable_features("contrib")
records = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
count = dp.t.make_count(*records) >> dp.m.then_laplace(scale=20.0)
malignant = [0] * int((load_breast_cancer().target == 0).sum())

with Accountant(analyst="ana") as ledger:
    policy = {"epsilon": "1", "delta": "1e-6", "unit": "patient"}
    ledger.as_owner("hospital").open("tumour-counts", policy)  # does nothing if it is open
    claim = opendp_claim(count, unit="patient")
    result = ledger.release("tumour-counts", claim, lambda: count(malignant), once="malignant")
print(f"about {result} malignant tumours, noise of scale 20")
