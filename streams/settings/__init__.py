"""Settings of every command, client and server, from the environment."""

from streams.settings.environment import PREFIX
from streams.settings.settings import (
    DEFAULT_URL,
    LEAST_LIMIT,
    Port,
    Settings,
    load,
    load_client,
    load_command,
    load_login,
    load_server,
    unknown_now,
)

__all__ = [
    "DEFAULT_URL",
    "LEAST_LIMIT",
    "PREFIX",
    "Port",
    "Settings",
    "load",
    "load_client",
    "load_command",
    "load_login",
    "load_server",
    "unknown_now",
]
