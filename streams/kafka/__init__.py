"""A ledger on Kafka: its topics, journal and service, and a worker's place in its group."""
