"""What operators do to a ledger on Kafka: restore it, accept lost inputs, check ACLs."""
