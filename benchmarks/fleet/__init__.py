"""Fifty agents of several kinds on a running system, and what came of each."""
