"""The state of a session for decisions: plain values."""
