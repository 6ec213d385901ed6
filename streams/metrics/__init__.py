"""Prometheus metrics: collectors over snapshots, one subject a file."""
