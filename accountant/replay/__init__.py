"""Reading a log back: replay it into a state, audit it, check its sums."""
