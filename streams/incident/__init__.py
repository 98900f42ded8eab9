"""The export of one session in one file: events, decisions, their reasons, and the proof that nothing was changed."""
