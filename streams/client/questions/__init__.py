"""Questions as a client asks them, and their answers."""
