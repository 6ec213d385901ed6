"""What a process that serves reads keeps of a ledger on Kafka: an index of usage and of places."""
