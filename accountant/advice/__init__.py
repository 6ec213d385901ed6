"""Calculators without a ledger: fits, choice of a filter, noise for an error, comparison."""
