"""Release a query's rows with SmartNoise: the claim is what its noisy columns spend.

Needs the extra `smartnoise`. ACCOUNTANT_URL names the ledger; by default it is a
file in this directory.
"""

import pandas as pd
from sklearn.datasets import load_breast_cancer
from snsql import Privacy, from_df

from streams import Accountant
from streams.engines.smartnoise import query_claim

QUERY = "SELECT benign, AVG(radius) AS radius FROM clinic.tumours GROUP BY benign"
data = load_breast_cancer()
rows = {"id": range(len(data.target)), "benign": data.target, "radius": data.data[:, 0]}
radius = {"type": "float", "lower": 5, "upper": 30}
columns = {"id": {"type": "int", "private_id": True}, "benign": {"type": "int"}, "radius": radius}
metadata = {"": {"clinic": {"tumours": {"max_ids": 1, **columns}}}}
reader = from_df(pd.DataFrame(rows), privacy=Privacy(epsilon=0.2, delta=1e-7), metadata=metadata)

with Accountant(analyst="ana") as ledger:
    policy = {"epsilon": "2", "delta": "1e-6", "delta_for_claims": "5e-7", "unit": "patient"}
    policy["most_per_request"] = "0.5"
    ledger.as_owner("hospital").open("tumour-queries", policy)  # does nothing if it is open
    claim = query_claim(reader, QUERY, unit="patient")
    means = ledger.release(
        "tumour-queries", claim, lambda: reader.execute(QUERY)[1:], once="radius"
    )
    for benign, mean in means:
        print(f"{'benign' if benign else 'malignant'}: a mean radius of about {mean:.1f}")
