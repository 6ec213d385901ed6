"""What clients read of a ledger: datasets, members, limits, usage."""
