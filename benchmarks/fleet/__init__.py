"""Fifty agents of several kinds on a running system, and the result of each."""
