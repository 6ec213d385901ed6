"""Settings of every command, client and door, from the environment."""

from streams.settings.settings import (
    DEFAULT_URL,
    LEAST_LIMIT,
    PREFIX,
    Port,
    Settings,
    load,
    misspelt,
)

__all__ = ["DEFAULT_URL", "LEAST_LIMIT", "PREFIX", "Port", "Settings", "load", "misspelt"]
