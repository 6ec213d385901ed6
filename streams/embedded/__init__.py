"""A ledger in one SQLite file, with one writer."""
