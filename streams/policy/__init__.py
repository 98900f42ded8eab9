"""Policies: from a file or their topic, checked against their schema."""
