"""How every dataset stands, wherever the ledger is; a ledger's file is only read."""
