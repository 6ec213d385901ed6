"""Asks of people for more: their table, and what asking and answering does."""
