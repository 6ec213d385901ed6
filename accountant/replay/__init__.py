"""Reading a log back: refold it into a state, audit it, check its sums."""
