"""What a client sends, and which reply belongs to it."""
