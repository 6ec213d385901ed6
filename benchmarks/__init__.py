"""How fast the ledger is, against the parts that it is made of, measured in one run."""
