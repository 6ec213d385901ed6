"""Release a mean by diffprivlib: its tool asks the ledger for a grant before it runs.

Needs the extra `diffprivlib`. The ledger is that of ACCOUNTANT_URL, or a file here.
"""

from diffprivlib import tools
from sklearn.datasets import load_breast_cancer

from streams.client import Accountant
from streams.engines.diffprivlib import LedgerBudget

radii = load_breast_cancer().data[:, 0]

with Accountant(analyst="ana") as ledger:
    policy = {"epsilon": "1", "delta": "1e-6", "unit": "patient", "neighbours": "replace"}
    policy["most_per_request"] = "0.2"
    ledger.open("tumour-radii", policy, by="hospital")  # left as it is once it is open
    # A mean divides by the number of patients, which everybody may know: a patient is replaced.
    with LedgerBudget(ledger, "tumour-radii", unit="patient", neighbours="replace"):
        radius = tools.mean(radii, epsilon=0.1, bounds=(5, 30))
print(f"the mean radius is about {radius:.2f}")
