"""Our extensions of the Kafka client library: batches, brokers, connections, transactions."""
