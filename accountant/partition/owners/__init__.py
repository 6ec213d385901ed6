"""Owners' records: each decided on its dataset, and what it changes beside that."""
