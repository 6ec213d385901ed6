"""Settings of every command, client and server, from the environment."""

from streams.settings.settings import (
    DEFAULT_URL,
    LEAST_LIMIT,
    Port,
    Settings,
    check_names,
    load,
    load_client,
    load_command,
    load_login,
    load_server,
    unknown_now,
)
from streams.variables import PREFIX

__all__ = [
    "DEFAULT_URL",
    "LEAST_LIMIT",
    "PREFIX",
    "Port",
    "Settings",
    "check_names",
    "load",
    "load_client",
    "load_command",
    "load_login",
    "load_server",
    "unknown_now",
]
