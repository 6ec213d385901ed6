"""Calculators without a ledger: what fits, which filter, how much noise, what if."""
