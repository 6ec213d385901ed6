"""The HTTP API's contract: its OpenAPI document."""
