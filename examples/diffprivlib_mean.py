"""Release a mean with diffprivlib: the tool asks the ledger for a grant before it runs.

Needs the extra `diffprivlib`. ACCOUNTANT_URL names the ledger; by default it is a
file in this directory.
"""

from diffprivlib import tools
from sklearn.datasets import load_breast_cancer

from streams import Accountant
from streams.engines.diffprivlib import LedgerBudget

radii = load_breast_cancer().data[:, 0]

with Accountant(analyst="ana") as ledger:
    policy = {"epsilon": "1", "delta": "1e-6", "unit": "patient", "neighbours": "replace"}
    policy["most_per_request"] = "0.2"
    ledger.as_owner("hospital").open("tumour-radii", policy)  # does nothing if it is open
    # A mean divides by the number of patients, which is public: neighbours replace a patient.
    with LedgerBudget(ledger, "tumour-radii", unit="patient", neighbours="replace"):
        radius = tools.mean(radii, epsilon=0.1, bounds=(5, 30))
print(f"the mean radius is about {radius:.2f}")
