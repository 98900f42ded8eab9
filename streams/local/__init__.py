"""Kafka and the system on one machine, for the demo, `haltline up` and tests."""
