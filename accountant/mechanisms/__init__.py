"""Accuracy-first mechanisms, for studies beside a ledger; no ledger imports them."""
