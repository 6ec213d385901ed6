"""Requests that wait for an owner's approval."""
