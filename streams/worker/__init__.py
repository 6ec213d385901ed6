"""One worker process: its partitions, its read side, its HTTP server."""
