"""Guarded calls, from proposal to end."""
