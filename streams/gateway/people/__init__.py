"""Who asks, who may do what, and what is left for whom."""
