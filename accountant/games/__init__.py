"""Games and adversaries: what the guarantees are tried against, never part of a ledger."""
