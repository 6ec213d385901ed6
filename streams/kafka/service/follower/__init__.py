"""Read side of a ledger on Kafka: follow its rows and decisions without owning it."""
