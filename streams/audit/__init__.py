"""The audit: every record of every topic in a Delta table, each exactly once, and how to ask it."""
