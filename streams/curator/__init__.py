"""Runs the questions that a ledger has granted: the only part of the program that reads data."""
