"""The reply to a request, and the error for one that is not granted."""
