"""Clients of Kafka: settings, topics, access rights, reading, producing."""
