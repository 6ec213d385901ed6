"""A ledger in one SQLite file, and its only writer."""
