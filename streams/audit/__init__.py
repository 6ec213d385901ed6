"""Auditing a log: deciding again, in several processes, and comparing its answers."""
