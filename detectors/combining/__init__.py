"""Detectors of what other detectors found."""
