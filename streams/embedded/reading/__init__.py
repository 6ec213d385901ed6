"""What is read of a ledger in a file, beside its writer."""
