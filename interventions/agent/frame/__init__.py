"""The frame of an integration: a session's calls, turns, usage and end, for adapters and the intake."""
