"""Signed checkpoints that the process of a ledger in a file keeps by itself."""
