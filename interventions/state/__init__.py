"""What is remembered of a session and decided with: plain values."""
