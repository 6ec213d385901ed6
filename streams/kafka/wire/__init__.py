"""Extensions of the Kafka client library: batches, brokers, connections, transactions."""
