"""Limits within a dataset's budget: by scope, in each period, and reserved shares."""
