"""Detectors that compare a session with its task and with its own beginning; off unless a policy names them."""
