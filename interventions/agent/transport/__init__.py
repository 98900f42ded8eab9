"""Transports between the guard and its decider: Kafka, a disk spool, or this process."""
