"""Decisions from findings: one per event. Pure."""
