"""What people look at: datasets, usage and alerts, folded from decisions."""
