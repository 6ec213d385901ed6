"""The page that opens a dataset: a form, what its policy promises, and the record."""
