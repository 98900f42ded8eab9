"""Kafka and haltline's processes on one machine, for the demo, `haltline up` and tests."""
