"""A dataset's page: what it shows, and its forms."""
