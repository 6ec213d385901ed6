"""What the page of a dataset shows, as texts and numbers: pure, and no HTML."""
