"""Detectors within one session, one pattern per file."""
