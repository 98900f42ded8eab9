"""Detectors of one session: one pattern, one file."""
