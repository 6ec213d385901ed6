"""Answers of mechanisms: kept on the disk, once for each grant."""
