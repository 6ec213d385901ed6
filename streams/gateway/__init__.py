"""Routes of the HTTP API: requests, datasets, budgets, events, and the OpenAPI document."""
