"""Release a count by OpenDP: its own privacy map is the claim.

Needs the extra `opendp`, and scikit-learn. The ledger is that of ACCOUNTANT_URL, or a file here.
"""

import opendp.prelude as dp
from sklearn.datasets import load_breast_cancer

from streams.client import Accountant
from streams.engines.opendp import opendp_claim

dp.enable_features("contrib")
records = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
count = dp.t.make_count(*records) >> dp.m.then_laplace(scale=20.0)
malignant = [0] * int((load_breast_cancer().target == 0).sum())

with Accountant(analyst="ana") as ledger:
    policy = {"epsilon": "1", "delta": "1e-6", "unit": "patient"}
    ledger.open("tumour-counts", policy, by="hospital")  # left as it is once it is open
    claim = opendp_claim(count, unit="patient")
    answer = ledger.release("tumour-counts", claim, lambda: count(malignant), once="malignant")
print(f"about {answer} malignant tumours, noise of scale 20")
