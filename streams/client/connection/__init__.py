"""How a client reaches its ledger: opened, retried, shared by a process."""
