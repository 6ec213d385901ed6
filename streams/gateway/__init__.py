"""Routes of the HTTP server: requests, datasets, budgets, events, and the OpenAPI document."""
