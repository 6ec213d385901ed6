"""Places outside of the ledger's machine that take signed checkpoints, and who sends them there."""
