"""What is told of a dataset's use."""

from streams.gateway.reading.why import show_why

__all__ = ["show_why"]
