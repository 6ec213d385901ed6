"""What the Kafka client library is made to do: batches, brokers, transactions."""
