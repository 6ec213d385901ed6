"""One worker process: its partitions, its read side, its door."""
