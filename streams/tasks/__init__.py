"""Tasks in the background, and their end."""
