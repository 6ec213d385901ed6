"""From the log back: refold, audit, sums."""
