"""Detectors that combine the findings of other detectors."""
