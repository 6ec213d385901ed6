"""Views: datasets, usage and alerts, folded from decisions."""
