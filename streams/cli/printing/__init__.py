"""Output of the commands: tables, decisions, messages and exit codes."""
