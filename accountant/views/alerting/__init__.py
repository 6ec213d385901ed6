"""Which thresholds of datasets and of their limits are crossed, and who tells of it."""
