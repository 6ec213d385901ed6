"""What every ledger offers, and what its callers may see."""
