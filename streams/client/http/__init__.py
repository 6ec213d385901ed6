"""A ledger behind a gateway: its calls, and streams that resume where they were cut."""
