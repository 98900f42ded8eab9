"""Between the guard and who decides: Kafka, a disk spool, or this process."""
