"""What went wrong in the histories that agents keep: `haltline scan`. Needs no Kafka and opens no socket."""
