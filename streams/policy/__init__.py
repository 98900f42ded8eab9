"""Policies: loaded from a file or their topic, and checked against their schema."""
