"""Everything around the accountant: journals, the worker, the gateway, and the command."""
