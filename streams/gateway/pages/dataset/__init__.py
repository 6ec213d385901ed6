"""The page of one dataset: what its reader may see of it, and the forms of its owners."""
