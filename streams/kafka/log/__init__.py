"""The log on Kafka: its topics, who owns a partition, and how it is read and written."""
