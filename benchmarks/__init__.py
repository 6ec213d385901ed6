"""Benchmarks of the ledger, each compared in the same run with the parts that it uses."""
