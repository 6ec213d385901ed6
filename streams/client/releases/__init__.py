"""Results of mechanisms, stored on disk: one result for each grant."""
