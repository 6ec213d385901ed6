"""What commands print: tables, decisions, messages, exit codes."""
