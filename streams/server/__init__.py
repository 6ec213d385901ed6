"""The HTTP server: the application, its connection and rate limits, and health probes."""
