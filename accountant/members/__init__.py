"""Members of a dataset: their table, and what each may do."""
