"""Reservations: grants at a maximum, for mechanisms that run, and settle, later."""
