"""Auditing a log: deciding again, and comparing answers, checkpoints and receipts with it."""
