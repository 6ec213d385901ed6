"""Reading a whole decision log: of a ledger's file, exported lines, or Kafka."""
