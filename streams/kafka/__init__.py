"""Kafka clients: settings, topics, access rights, reading, producing."""
