"""A topic as a place for signed checkpoints, and the places that settings name."""
