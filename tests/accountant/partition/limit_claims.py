"""Claims at random that a filter is likely to take, small enough that limits matter first."""

from __future__ import annotations

import random
from typing import Final

from tests.accountant.judged_life import Body

_EPSILONS: Final = (*["0.001", "0.002", "0.005", "0.01", "0.02"] * 3, "0.05", "0.1", "0.4", "2")
_DELTAS: Final = ("1e-10", "1e-9", "1e-8", "3e-7")


def claim_for(name: str, chance: random.Random) -> Body:
    """Return a claim that a filter is likely to take."""
    epsilon = chance.choice(_EPSILONS)
    if name == "ex_post" or (name == "split" and chance.random() < 0.4):
        claim: Body = {"type": "ex_post", "epsilon": epsilon}
        return claim | ({"delta": chance.choice(_DELTAS)} if chance.random() < 0.3 else {})
    if name == "optimal_homogeneous":
        epsilon = chance.choice(["0.02", "0.01", "0.03"])
    sigma = chance.choice(["20", "60", "90", "200", "3"])
    kinds: list[Body] = [
        {"type": "pure", "epsilon": epsilon},
        {
            "type": "laplace",
            "scale": chance.choice(["90", "300", "99", "7"]),
            "sensitivity": "1",
        },
        {"type": "gaussian", "sigma": sigma, "sensitivity": "1"},
        {"type": "zcdp", "rho": chance.choice(["0.00001", "0.0001", "0.002"])},
        {"type": "approximate", "epsilon": epsilon, "delta": chance.choice(_DELTAS)},
        {"type": "bounded_range", "eta": epsilon},
        {"type": "brownian", "variance": "1000", "sensitivity": "1", "previous": "3000"},
    ]
    takes = {
        **dict.fromkeys(("basic", "advanced_2016", "optimal_homogeneous"), (0, 1, 4, 5)),
        **dict.fromkeys(("renyi", "renyi_weighted", "renyi_mixture"), (0, 1, 2, 3)),
        "gdp_residue": (0, 1, 2, 4, 5, 6),
    }.get(name, range(7))
    known = [kinds[place] for place in takes]
    return chance.choice(kinds if chance.random() < 0.04 else known)
