"""Shared by all HTTP routes: problems, the request context, the Host check, refusals."""
