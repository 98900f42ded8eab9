"""What went wrong in the histories that agents keep of themselves: `haltline scan`. Needs no Kafka and opens no socket."""
