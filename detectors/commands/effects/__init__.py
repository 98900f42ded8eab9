"""Irreversible effects by extensible tables: programs, requests, statements, tools, button labels.

Misses: everything without a line in a table; one more line adds it.
"""
