"""What the product does with Kafka's clients, below the journal, the worker and the gateway."""
