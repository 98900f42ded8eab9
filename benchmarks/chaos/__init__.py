"""Workers, the sink and the broker are killed, frozen and restarted under load; afterwards everything is counted."""
