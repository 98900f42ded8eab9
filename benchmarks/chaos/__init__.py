"""Workers, the sink and the broker are killed, frozen and restarted under load; then all results are compared."""
