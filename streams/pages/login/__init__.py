"""Signing in on the pages, and the sessions of browsers."""
