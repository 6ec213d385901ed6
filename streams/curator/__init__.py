"""Runs the questions that a ledger has granted."""
