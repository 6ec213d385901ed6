"""Games and adversaries that test the guarantees; no ledger imports them."""
