"""Mechanisms that put accuracy first: what is studied beside a ledger, never part of one."""
