"""One dataset: the decision on a request, and the rows of its state."""
