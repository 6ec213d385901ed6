"""The HTTP server: the application, its limits on connections and requests, and the probes."""
