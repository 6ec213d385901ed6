"""The asynchronous client, from which `make client` writes the synchronous one."""
