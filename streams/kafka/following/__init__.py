"""How a process that does not own a ledger on Kafka follows its rows and decisions."""
