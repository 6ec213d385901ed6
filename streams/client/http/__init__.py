"""The client of a gateway: calls, and event streams that reconnect."""
