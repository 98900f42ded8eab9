"""Detectors that compare a session with its task and with its own beginning; they run only if a policy names them."""
